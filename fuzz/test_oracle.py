"""The oracle says nothing of two lives that are equal to one, and names each flaw that is planted in them."""

import msgspec
import pytest
from attrs import evolve

from fuzz.account import Call, Effect, Life, Line, Response, Usage
from fuzz.attempts import Whole
from fuzz.boundaries import Boundary, Checkpoint, Cut, Verdict
from fuzz.oracle import judge
from fuzz.rules import earned
from fuzz.states import State, read_state
from triocollect.servers.resources.blackjack import Blackjack, BlackjackSource

WHOLES = {"0-0": Whole(changes=(3, -1), calls=4, tokens=7, reward=1.0)}
START, AT_10, AT_9 = State(7, 7, 0), State(7, 10, 1), State(7, 9, 2)


def effect(attempt, name, amount, state):
    return Effect("0-0", attempt, name, msgspec.Raw(msgspec.json.encode({"amount": amount})), state)


def calls(key, *tokens):
    return {key: [Call(key, finished=True, output_tokens=each) for each in tokens]}


RESULT = Line(0, 0, attempt=1, reward=1.0, start_value=7, final_value=9, effects=2)
KEPT = Boundary(0, AT_10, None, 1, 1)

STOPPED = Life(
    code=75,
    sent={"0-0": [0]},
    effects={"0-0": [effect(0, "seed", 0, START), effect(0, "increment", 3, AT_10)]},
    calls=calls("0-0", 1, 1),  # the second was under way
    checkpoint=Checkpoint("c", 2, {"0-0": KEPT}),
    published="c",
)
DONE = Life(
    code=0,
    lines=(RESULT,),
    acknowledged=frozenset({"0-0-a1"}),
    sent={"0-0": [1, 1]},  # installed, and sent
    effects={"0-0": [effect(1, "decrement", 1, AT_9)]},
    calls=calls("0-0-a1", 1, 1, 4),
    checkpoint=STOPPED.checkpoint,
    published="c",
)


def keeping(**other):
    return Checkpoint("c", 2, {"0-0": evolve(KEPT, **other)})


FLAWS = {
    "0-0-a1: the seed changed: begun anew after 1 effects": (
        STOPPED,
        evolve(DONE, effects={"0-0": [effect(1, "seed", 0, START), *DONE.effects["0-0"]]}),
    ),
    "0-0-a1: effect 1 follows effect 1: repeated": (
        STOPPED,
        evolve(DONE, effects={"0-0": [effect(1, "increment", 3, AT_10), *DONE.effects["0-0"]]}),
    ),
    "0-0-a1: 1 effects, of 2": (STOPPED, evolve(DONE, effects={})),
    "0-0-a1: 5 calls, 8 tokens; the row takes 4 and 7": (
        STOPPED,
        evolve(DONE, calls=calls("0-0-a1", 1, 1, 1, 4)),
    ),
    "the stop's checkpoint keeps 1 calls of 3: more than one is lost": (
        evolve(STOPPED, calls=calls("0-0", 1, 1, 1)),
        DONE,
    ),
    "the stop's checkpoint keeps State(seed=7, value=7, effects=0), and State(seed=7, value=10": (
        evolve(STOPPED, checkpoint=keeping(state=START)),
        DONE,
    ),
    "the checkpoint keeps State(seed=8, value=10, effects=1), which never was": (
        evolve(STOPPED, checkpoint=keeping(state=State(8, 10, 1))),
        DONE,
    ),
    "the checkpoint keeps 3 calls, and 2 were made": (evolve(STOPPED, checkpoint=keeping(calls=3)), DONE),
    "effects although it was judged": (
        evolve(STOPPED, checkpoint=keeping(state=None, verdict=Verdict(7, 10, 1))),
        DONE,
    ),
    "0-0: attempt 0 was used before": (STOPPED, evolve(DONE, sent={"0-0": [0, 1]})),
    "0-0: attempts go back": (STOPPED, evolve(DONE, sent={"0-0": [2, 1]})),
    "0-0-a1 ran, and no log says": (STOPPED, evolve(DONE, sent={})),
    "0-0 was sent although it had a result": (evolve(STOPPED, lines=(RESULT,)), DONE),
    "0-0 has more than one result": (STOPPED, evolve(DONE, lines=(RESULT, RESULT))),
    "0-0 has no result": (STOPPED, evolve(DONE, lines=())),
    "0-0-a1 was acknowledged and is not written": (STOPPED, evolve(DONE, lines=())),
    "lines of the output are gone": (evolve(STOPPED, lines=(RESULT,)), evolve(DONE, lines=())),
    "LATEST went back": (STOPPED, evolve(DONE, checkpoint=None)),
    "the result says": (STOPPED, evolve(DONE, lines=(msgspec.structs.replace(RESULT, final_value=10),))),
    "the reward is 0.0": (STOPPED, evolve(DONE, lines=(msgspec.structs.replace(RESULT, reward=0.0),))),
    "more than 3": (evolve(STOPPED, rests=("more than 3 checkpoints are kept",)), DONE),
    "damaged": (evolve(STOPPED, faults=("LATEST leads to something damaged",)), DONE),
}


WHOLE_WORK = {"0-0": [*STOPPED.effects["0-0"], effect(0, "decrement", 1, AT_9)]}
EQUAL = {
    "stopped half way": (STOPPED, DONE),
    "stopped when it was judged": (
        evolve(
            STOPPED,
            effects=WHOLE_WORK,
            calls=calls("0-0", 1, 1, 1, 4),
            checkpoint=keeping(state=None, verdict=Verdict(7, 9, 2), calls=0, tokens=0),
        ),
        evolve(DONE, effects={}, calls={}),
    ),
    "killed beyond its checkpoint": (
        evolve(STOPPED, code=-9, effects=WHOLE_WORK, calls=calls("0-0", 1, 1, 1)),
        DONE,
    ),
    "killed without a checkpoint": (
        evolve(STOPPED, code=-9, checkpoint=None, published=None),
        evolve(
            DONE,
            checkpoint=None,
            sent={"0-0": [1]},
            effects={"0-0": [msgspec.structs.replace(one, attempt=1) for one in WHOLE_WORK["0-0"]]},
            calls=calls("0-0-a1", 1, 1, 1, 4),
        ),
    ),
}


@pytest.mark.parametrize("story", EQUAL)
def test_a_rollout_that_went_on_is_equal_to_one_that_nobody_interrupted(story):
    assert judge(EQUAL[story], WHOLES) == []


@pytest.mark.parametrize("told", FLAWS)
def test_each_flaw_is_named(told):
    assert any(told in what for what in judge(FLAWS[told], WHOLES)), judge(FLAWS[told], WHOLES)


def blackjack(attempt, *moves, begun=None, seed=5):
    """Effects of a game, by the environment's own rules."""
    source, state = BlackjackSource(), begun or Blackjack(seed)
    lines = [] if begun else [("seed", state)]
    for tool in moves:
        state = source.call(state, tool, b"{}").state
        lines.append((tool, state))
    return [
        Effect("0-0", attempt, tool, msgspec.Raw(b"{}"), read_state(msgspec.json.encode(one)), "blackjack")
        for tool, one in lines
    ], state


def a_game(*, shoe=lambda table: table):
    """Two lives of a game that is stopped after its first move; `shoe` is what came of it at the restore."""
    first, table = blackjack(0, "deal")
    second, _ = blackjack(1, "stand", begun=shoe(table))
    kept = Boundary(0, first[-1].state, None, 1, 1)
    line = Line(0, 0, attempt=1, reward=earned(second[-1].state), effects=2, response=Response(Usage(6)))
    stopped = evolve(
        STOPPED,
        effects={"0-0": first},
        calls=calls("0-0", 1, 1),
        checkpoint=Checkpoint("c", 2, {"0-0": kept}),
    )
    done = evolve(
        DONE,
        lines=(line,),
        effects={"0-0": second},
        calls=calls("0-0-a1", 1, 4),
        checkpoint=stopped.checkpoint,
    )
    return stopped, done


A_GAME = {"0-0": Whole(changes=("of another game",), calls=9, tokens=99, reward=0.3, by_chance=True)}


def test_a_game_that_went_on_with_its_cards_is_equal_whatever_the_measure_s_own_cards_were():
    assert judge(a_game(), A_GAME) == []


@pytest.mark.parametrize(
    ("flaw", "told"),
    [
        ({"draws": 0}, "and stand {} make"),
        ({"seed": 6}, "the seed changed at effect 2"),
        ({"effects": 0}, "effect 1 follows effect 1: repeated"),
    ],
)
def test_other_cards_than_those_that_would_have_come_are_named(flaw, told):
    def shoe(table):
        return msgspec.structs.replace(table, **flaw)

    found = judge(a_game(shoe=shoe), A_GAME)
    assert any(told in what for what in found), found


def test_a_row_without_a_session_goes_on_from_its_cut_or_begins_anew_where_servers_stand_alone():
    wholes = {"0-0": Whole(changes=(), calls=1, tokens=14, reward=1.0, has_session=False)}
    kept = Checkpoint("c", 2, {"0-0": Boundary(0, None, None, 0, 0, Cut("key", 6))})
    stopped = evolve(STOPPED, effects={}, calls=calls("0-0", 6), checkpoint=kept)
    line = Line(0, 0, attempt=1, reward=1.0)
    for tokens, told in ((8, 0), (14, 0), (7, 1), (15, 1)):
        done = evolve(
            DONE, lines=(line,), effects={}, calls=calls("0-0-a1", tokens), checkpoint=kept, anew=True
        )
        assert len([what for what in judge((stopped, done), wholes) if "tokens" in what]) == told
