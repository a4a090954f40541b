"""What a model server has said of its calls outlives it: who is retired stays so, and calls are known.

Over any calls, retires and restores, by any number of workers, and deaths between and amid any of them.
"""

import shutil
from collections import defaultdict
from functools import partial

import hypothesis
import hypothesis.strategies as st
import trio
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fuzz.invariants import ask_all, holds
from fuzz.scratch import scratch
from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.capture.shares import Share
from triocollect.participant import Admission
from triocollect.participant.workers import owner_of
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.account import Account
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.capture import Capture

ROLLOUTS, ATTEMPTS = ("0-0", "1-0", "2-0"), range(5)
MOST_WORKERS = 3
episodes = st.builds(EpisodeId, st.sampled_from(ROLLOUTS), st.sampled_from(ATTEMPTS))


async def in_thread(work):
    return work()


class Lives(RuleBasedStateMachine):
    """One folder, many processes. `through`: up to which attempt each rollout is retired; `rows`: calls."""

    def __init__(self):
        super().__init__()
        self.folder = scratch()
        self.through, self.rows, self.calls = {}, defaultdict(list), 0
        self.workers, self.of = {}, 1
        self.begin(1)

    def begin(self, of):
        """All of them, anew, so many."""
        self.end()
        self.of = of
        self.workers = {number: self.worker(number) for number in range(1, of + 1)}

    def worker(self, number):
        account = Account(self.folder / "capture" / "policy_model", in_thread, Share(number, self.of))
        return Capture("policy_model", Admission(), None, account)

    def end(self):
        for capture in self.workers.values():
            capture.account.close()

    def teardown(self):
        self.end()
        shutil.rmtree(self.folder)

    def owner(self, rollout_id):
        return self.workers[owner_of(rollout_id, self.of)]

    def drops(self, gone):
        for episode in [one for one in self.rows if gone(one)]:
            del self.rows[episode]

    def is_retired(self, episode):
        return episode.attempt <= self.through.get(episode.rollout_id, -1)

    @rule(episode=episodes)
    def a_call_is_answered(self, episode):
        self.calls += 1
        call = Call(f"call {self.calls}", episode, b"{}", None, "asked")
        refused = trio.run(self.owner(episode.rollout_id).deliver, call, Answer(b"{}"))
        if refused is None:
            self.rows[episode].append(call.id)
        holds(2, (refused is not None) or not self.is_retired(episode), f"{episode} is retired, and calls")

    @rule(retired=st.lists(episodes, min_size=1, max_size=3))
    def attempts_are_retired(self, retired):
        for capture in self.workers.values():
            trio.run(capture.stop, retired)
        for one in retired:
            self.through[one.rollout_id] = max(one.attempt, self.through.get(one.rollout_id, -1))
        self.drops(self.is_retired)

    @rule(episode=episodes, later=st.integers(1, 3))
    def a_checkpoint_is_restored(self, episode, later):
        becomes = EpisodeId(episode.rollout_id, episode.attempt + later)
        owner, rows = self.owner(episode.rollout_id), self.rows.get(episode, [])
        records = trio.run(owner.export(frozenset({episode})))
        for capture in self.workers.values():
            trio.run(partial(capture.install, records if capture is owner else (), {episode: becomes}))
            capture.restored.clear()  # whoever goes on from it has called
        self.through[episode.rollout_id] = becomes.attempt - 1
        self.drops(lambda one: one.rollout_id == episode.rollout_id)
        self.rows[becomes] = rows

    @rule(rollout_id=st.sampled_from(ROLLOUTS))
    def a_rollout_is_forgotten(self, rollout_id):
        for capture in self.workers.values():
            capture.forget([rollout_id])
            trio.run(capture.account.durable)
        self.through.pop(rollout_id, None)
        self.drops(lambda one: one.rollout_id == rollout_id)

    @rule(number=st.integers(1, MOST_WORKERS))
    def a_worker_dies(self, number):
        number = min(number, self.of)
        self.workers[number].account.close()
        self.workers[number] = self.worker(number)

    @rule(of=st.integers(1, MOST_WORKERS))
    def all_die_and_come_back_as_so_many(self, of):
        self.begin(of)

    @rule(
        episode=episodes, steps=st.integers(0, 8), power=st.booleans(), kept=st.sampled_from([0.0, 0.5, 1.0])
    )
    def a_worker_dies_as_it_answers(self, episode, steps, power, kept):
        """The caller has heard nothing: its call may be known, and whatever else was said is."""
        before = {one: [*calls] for one, calls in self.rows.items()}
        try:
            with DyingDisk(self.folder, steps, power=power, kept=kept):
                self.a_call_is_answered(episode)
        except* DeathError:
            self.rows = defaultdict(list, before)
            self.begin(self.of)
            known = [row.call_id for row in self.owner(episode.rollout_id).ledger.rows(episode)]
            if known == [*before.get(episode, ()), f"call {self.calls}"]:
                self.rows[episode] = known

    @invariant()
    def what_was_said_is_so(self):
        ask_all(
            [self.what_is_retired_and_nothing_else_is_refused, self.the_calls_are_known_that_were_answered]
        )

    def what_is_retired_and_nothing_else_is_refused(self):
        for episode in (EpisodeId(one, attempt) for one in ROLLOUTS for attempt in ATTEMPTS):
            refused = self.owner(episode.rollout_id).ledger.refusal(episode) is not None
            holds(2, refused or not self.is_retired(episode), f"{episode} is retired, and may call")
            holds(10, self.is_retired(episode) or not refused, f"{episode} is refused, and was never retired")

    def the_calls_are_known_that_were_answered(self):
        for number, capture in self.workers.items():
            for episode in capture.ledger.episodes:
                ours = capture is self.owner(episode.rollout_id) and self.rows.get(episode)
                holds(16, ours, f"worker {number} keeps calls of {episode}, which is over, or not its own")
        for episode, calls in self.rows.items():
            known = [row.call_id for row in self.owner(episode.rollout_id).ledger.rows(episode)]
            holds(11, known == calls, f"of {calls} of {episode} are known {known}")


TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(
    hypothesis.settings.default,
    max_examples=max(50, hypothesis.settings.default.max_examples // 2),
    stateful_step_count=15,
    deadline=None,
)


def test_a_worker_that_begins_its_file_leaves_those_that_another_one_has_yet_to_take_over():
    """Of two that follow one, the second has written nothing yet when it dies."""
    lives = Lives()
    lives.a_call_is_answered(EpisodeId("0-0", 0))
    lives.all_die_and_come_back_as_so_many(2)
    assert lives.owner("0-0") is lives.workers[2]
    lives.a_call_is_answered(EpisodeId("1-0", 0))
    lives.a_worker_dies(2)
    lives.what_was_said_is_so()
    lives.teardown()
