"""What a model server has said of its calls outlives it: who is retired stays so, and calls are known.

Over any calls, retires and restores, and the deaths of its process between any two.
"""

import shutil
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import trio
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fuzz.invariants import ask_all, holds
from triocollect.participant import Admission
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.model.account import Account
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.capture import Capture

ROLLOUTS, ATTEMPTS = ("0-0", "1-0"), range(5)
episodes = st.builds(EpisodeId, st.sampled_from(ROLLOUTS), st.sampled_from(ATTEMPTS))


async def in_thread(work):
    return work()


class Lives(RuleBasedStateMachine):
    """One folder, many processes. `through`: up to which attempt each rollout is retired; `rows`: calls."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="capture-"))
        self.through, self.rows, self.calls = {}, defaultdict(list), 0
        self.begins()

    def begins(self):
        account = Account(self.folder / "capture" / "policy_model", in_thread)
        self.capture = Capture("policy_model", Admission(), None, account)

    def teardown(self):
        self.capture.account.close()
        shutil.rmtree(self.folder)

    def drops(self, gone):
        for episode in [one for one in self.rows if gone(one)]:
            del self.rows[episode]

    def is_retired(self, episode):
        return episode.attempt <= self.through.get(episode.rollout_id, -1)

    @rule(episode=episodes)
    def a_call_is_answered(self, episode):
        self.calls += 1
        call = Call(f"call {self.calls}", episode, b"{}", None, "asked")
        refused = trio.run(self.capture.deliver, call, Answer(b"{}"))
        if refused is None:
            self.rows[episode].append(call.id)
        holds(2, (refused is not None) or not self.is_retired(episode), f"{episode} is retired, and calls")

    @rule(retired=st.lists(episodes, min_size=1, max_size=3))
    def attempts_are_retired(self, retired):
        trio.run(self.capture.stop, retired)
        for one in retired:
            self.through[one.rollout_id] = max(one.attempt, self.through.get(one.rollout_id, -1))
        self.drops(self.is_retired)

    @rule(episode=episodes, later=st.integers(1, 3))
    def a_checkpoint_is_restored(self, episode, later):
        becomes = EpisodeId(episode.rollout_id, episode.attempt + later)
        records = trio.run(self.capture.export(frozenset({episode})))
        rows = self.rows.get(episode, [])
        trio.run(partial(self.capture.install, records, {episode: becomes}))
        self.through[episode.rollout_id] = becomes.attempt - 1
        self.drops(lambda one: one.rollout_id == episode.rollout_id)
        self.rows[becomes] = rows
        self.capture.restored.clear()  # whoever goes on from it has called

    @rule(rollout_id=st.sampled_from(ROLLOUTS))
    def a_rollout_is_forgotten(self, rollout_id):
        self.capture.forget([rollout_id])
        trio.run(self.capture.account.durable)
        self.through.pop(rollout_id, None)
        self.drops(lambda one: one.rollout_id == rollout_id)

    @rule()
    def the_process_dies(self):
        self.capture.account.close()
        self.begins()

    @invariant()
    def what_was_said_is_so(self):
        ask_all(
            [self.what_is_retired_and_nothing_else_is_refused, self.the_calls_are_known_that_were_answered]
        )

    def what_is_retired_and_nothing_else_is_refused(self):
        for episode in (EpisodeId(one, attempt) for one in ROLLOUTS for attempt in ATTEMPTS):
            refused = self.capture.ledger.refusal(episode) is not None
            holds(2, refused or not self.is_retired(episode), f"{episode} is retired, and may call")
            holds(10, self.is_retired(episode) or not refused, f"{episode} is refused, and was never retired")

    def the_calls_are_known_that_were_answered(self):
        ledger = self.capture.ledger
        for episode in ledger.episodes:
            holds(16, self.rows.get(episode), f"calls of {episode} are kept, which is over")
        for episode, calls in self.rows.items():
            known = [row.call_id for row in ledger.rows(episode)]
            holds(11, known == calls, f"of {calls} of {episode} are known {known}")


TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(
    hypothesis.settings.default,
    max_examples=max(50, hypothesis.settings.default.max_examples // 2),
    stateful_step_count=15,
    deadline=None,
)
