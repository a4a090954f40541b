"""Whatever signal comes when, to a real collector or a real server: the lives of a run are equal to one."""

import pytest
import trio

from fuzz.live.explore import tell_all
from fuzz.live.story import Life, Story, Strike
from fuzz.tally import Tally

pytestmark = pytest.mark.processes

USR1 = Strike("effects", 2, "USR1")
TERM = Strike("effects", 2, "TERM")
PAST = 1.15  # leases


def story(*lives, rows=2, crews=(), **more):
    """`crews`: how many workers each server has in one life after the other, and then."""
    crews = crews or (1,) * (len(lives) + 1)
    lived = (Life(tuple(strikes), workers=crew) for strikes, crew in zip(lives, crews, strict=False))
    return Story(rows=rows, lives=tuple(lived), workers=crews[-1], **{"mix": "counter", **more})


def held_open(*more):
    """A checkpoint that waits for the counter while the others are closed already."""
    return [Strike("effects", 3, "STOP", "counter", 1.2), Strike("start", 0, "USR1"), *more]


ALONE = {"alone": True, "rows": 3}
QUICK = {"timeout_s": 3.0, "grace_s": 3.0}
STORIES = {
    "a participant sleeps": story(held_open(Strike("closed", 0, "STOP", "agent", PAST)), **ALONE, **QUICK),
    "a participant sleeps and its collector dies": story(
        held_open(Strike("closed", 0, "STOP", "agent", PAST), Strike("start", 0, "KILL")),
        **ALONE,
        **QUICK,
        standing=True,
    ),
    "a collector sleeps": story(held_open(Strike("closed", 0, "STOP", leases=PAST)), **ALONE, **QUICK),
    "before the folder": story([Strike("publish", 1, "STOP", leases=PAST), USR1], **QUICK),
    "before LATEST": story([Strike("publish", 3, "STOP", leases=PAST), USR1], **QUICK),
    "stops": story(
        [TERM], [Strike("start", 0.5, "TERM")], [USR1, Strike("lines", 1, "TERM")], mix="mixed", rows=4
    ),
    "two Ctrl-Cs": story(
        [USR1, Strike("lines", 1, "TERM")], [Strike("start", 0.8, "INT"), Strike("lines", 1, "INT")]
    ),
    "deaths in a checkpoint and a restore": story(
        [USR1, Strike("checkpoint", 0.5, "KILL")], [Strike("start", 0.9, "KILL")], [TERM], mix="mixed", rows=4
    ),
    "deaths at a file": story(
        [Strike("start", 0, "HUP")], [Strike("publish", 4, "KILL"), USR1], [Strike("names", 6, "KILL")]
    ),
    "deaths of servers": story(
        [USR1, Strike("effects", 1, "KILL", "agent")], [Strike("effects", 1, "KILL", "all")]
    ),
    "a death in a commit": story(
        [Strike("publish", 1, "KILL", "counter"), USR1], [Strike("effects", 1, "HUP")]
    ),
    "servers that stand": story(
        [Strike("effects", 3, "KILL")], [USR1, Strike("lines", 3, "TERM")], **ALONE, standing=True
    ),
    "a worker dies while a checkpoint waits for it": story(
        [
            Strike("effects", 2, "STOP", "agent 1", 0.3),
            Strike("start", 0, "USR1"),
            Strike("closed", 0, "KILL", "agent 1"),
        ],
        crews=(2, 2),
        **ALONE,
    ),
    "workers die when all have committed": story(
        [Strike("held", 2, "KILL", "counter *"), USR1], crews=(2, 3)
    ),
    "a coordinator dies when all have committed": story(
        [Strike("held", 3, "KILL", "environment"), USR1], crews=(2, 1)
    ),
    "a worker dies in a restore": story(
        [USR1, Strike("lines", 3, "TERM")],
        [
            Strike("restore", 1, "STOP", "counter 1", 0.3),
            Strike("closed", 0, "KILL", "agent 1"),
            Strike("start", 0, "KILL", "counter 1"),
        ],
        crews=(4, 3, 1),
        tokens_per_s=15.0,
        alone=True,
        rows=3,
    ),
    "all workers die": story([Strike("held", 1, "KILL", "workers"), USR1], [TERM], crews=(2, 1, 3)),
    "servers alone": story(
        [USR1, Strike("effects", 1, "KILL", "counter")], [Strike("effects", 2, "TERM", "all")], **ALONE
    ),
}


@pytest.fixture(scope="module")
def tally():
    return Tally("live", 0)


@pytest.fixture(scope="module")
def told(tally):
    """The lives of each story; most of their time they wait, so all are told at once."""
    return dict(zip(STORIES, trio.run(tell_all, STORIES.values(), tally), strict=True))


def test_whatever_signal_comes_when_every_row_is_played_once_from_end_to_end(told, tally):
    assert not tally.violations, "\n".join(tally.violations)
    kinds = tally.account().kinds
    assert tally.explored == len(STORIES)
    assert sum(kind.injected for kind in kinds.values()) >= 2 * len(STORIES)
    assert len(kinds) >= 8, kinds


def test_a_server_that_dies_while_it_writes_its_part_of_a_checkpoint_ends_the_run_and_costs_no_row(told):
    first = told["a death in a commit"][0]
    assert [(one.strike.what, one.strike.whom) for one in first.struck][-1] == ("KILL", "counter")
    assert first.code == 1


def signals(life):
    return [one.strike.what for one in life.struck]


def test_a_participant_that_sleeps_past_its_lease_in_a_checkpoint_opens_by_itself_and_the_run_goes_on(told):
    first = told["a participant sleeps"][0]
    assert signals(first) == ["STOP", "USR1", "STOP"]
    assert first.code == 0
    assert '"published":false' in first.words
    assert '"published":true' not in first.words


def test_a_participant_that_sleeps_past_its_lease_while_its_collector_dies_opens_for_the_next_one(told):
    first, *others = told["a participant sleeps and its collector dies"]
    assert signals(first) == ["STOP", "USR1", "STOP", "KILL"]
    assert first.code == -9
    assert others[-1].code == 0


def test_a_collector_that_sleeps_past_the_leases_of_its_participants_publishes_nothing_and_goes_on(told):
    first = told["a collector sleeps"][0]
    assert signals(first) == ["STOP", "USR1", "STOP"]
    assert first.code == 0
    assert '"published":false' in first.words
    assert '"published":true' not in first.words


@pytest.mark.parametrize("where", ["before the folder", "before LATEST"])
def test_a_collector_that_sleeps_past_the_leases_in_the_middle_of_a_publish_tears_nothing(told, where):
    first = told[where][0]
    assert "STOP" in signals(first)
    assert first.code == 0


def kills(life):
    return [(one.strike.whom, one.strike.of) for one in life.struck if one.strike.what == "KILL"]


def test_a_worker_that_dies_while_a_checkpoint_waits_for_it_costs_that_checkpoint_and_no_row(told):
    first = told["a worker dies while a checkpoint waits for it"][0]
    assert kills(first) == [("agent 1", "closed")]
    assert '"published":true' not in first.words


def test_workers_that_die_between_their_commit_and_the_publish_take_nothing_from_the_checkpoint(told):
    first = told["workers die when all have committed"][0]
    assert kills(first) == [("counter *", "held")]
    assert '"published":true' in first.words


def test_a_coordinator_that_dies_between_commit_and_publish_ends_the_run_and_others_go_on(told):
    first, *others = told["a coordinator dies when all have committed"]
    assert kills(first) == [("environment", "held")]
    assert (first.code, others[-1].code) == (1, 0)
    assert [one.workers for one in (first, *others)][:2] == [2, 1]


def test_a_worker_that_dies_in_a_restore_onto_another_number_of_them_costs_no_row(told):
    first, second, *others = told["a worker dies in a restore"]
    assert first.code == 75
    assert second.continued
    assert kills(second) == [("agent 1", "closed"), ("counter 1", "start")]
    assert {one.phase.partition(":")[0] for one in second.struck} == {"start"}
    assert (first.workers, second.workers, others[-1].workers) == (4, 3, 1)


def test_a_run_comes_to_its_end_although_all_workers_of_all_servers_have_died_at_once(told):
    first = told["all workers die"][0]
    assert kills(first) == [("workers", "held")]
    assert "Finished rollout collection" in first.words
