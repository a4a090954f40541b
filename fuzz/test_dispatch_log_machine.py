"""No attempt that may have been sent is the next one, over runs, kills, power cuts, machines and outputs."""

import contextlib
import itertools
import shutil
from collections import defaultdict

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule

from fuzz.invariants import holds
from fuzz.scratch import scratch
from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.sent import read_dispatched
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import DispatchHeader

skips = st.sampled_from([0, 3, 4, 5])  # around what is reserved ahead
rollouts = st.sampled_from(["0-0", "1-0", "2-0"])
outputs = st.sampled_from(["out", "other"])


class Lives(RuleBasedStateMachine):
    """One directory. A run is `log`; `used`: the highest attempt that may have been sent, of each rollout.

    `boot`: the machine that collects, `output`: for which; a rollout that is `finished` there has no line any
    more when the log begins anew. Only a rollout that was never sent may be at -1.
    """

    def __init__(self):
        super().__init__()
        self.root = scratch()
        self.path = self.root / "dispatched.jsonl"
        self.boot, self.log, self.past = 0, None, None
        self.used, self.output, self.finished = {}, "out", defaultdict(set)
        try:
            self.begins()
        except BaseException:
            self.teardown()  # who was never there is not torn down
            raise

    def teardown(self):
        if self.log is not None:
            self.log.close()
        shutil.rmtree(self.root)

    @property
    def unfinished(self):
        """What a row of this output goes on as must be above what was used, by whomever."""
        return {one: at for one, at in self.used.items() if one not in self.finished[self.output]}

    def begins(self):
        """A run starts on whatever machine there is now; the one before is no more."""
        if self.log is not None:
            self.log.close()
            self.log = None
        first = not self.path.exists()
        self.past = read_dispatched(self.path, boot=str(self.boot)).beside(self.output)
        holds(2, self.past.complete != first, f"a log that was there is complete: {self.past.complete}")
        for rollout, attempt in self.unfinished.items():
            following = self.past.next_attempt(rollout)
            holds(2, following > attempt, f"{rollout} goes on as {following}, and {attempt} was used")
        header = DispatchHeader(
            "4f2c", 1, 0, reserved=0, floor=self.past.floor, start=self.past.start, used=self.past.used,
            output=self.output,
        )  # fmt: skip
        done = self.finished[self.output]
        attempts = {one: at for one, at in self.past.attempts.items() if one not in done}
        senders = self.past.of_others(self.output)
        self.log = start_dispatched(self.path, header, attempts, senders=senders, boot=str(self.boot))

    def send(self, rollout, skip):
        if rollout in self.finished[self.output]:
            return
        attempt = max(self.past.next_attempt(rollout), self.used.get(rollout, -1) + 1) + skip
        self.log.append([EpisodeId(rollout, attempt)])
        self.used[rollout] = attempt

    def end(self):
        log, self.log = self.log, None
        log.end()

    @rule(rollout=rollouts, skip=skips)
    def a_row_is_sent(self, rollout, skip):
        self.send(rollout, skip)

    @rule()
    def everything_is_synced(self):
        self.log.sync()

    @rule(rollout=rollouts)
    def a_row_is_finished(self, rollout):
        """Its result says so from now on, to this output alone."""
        if rollout in self.used:
            self.finished[self.output].add(rollout)

    @rule(moves=st.booleans(), output=outputs)
    def the_run_ends_and_another_begins(self, moves, output):
        self.end()
        self.boot, self.output = self.boot + moves, output
        self.begins()

    @rule(output=outputs)
    def the_collector_is_killed(self, output):
        self.output = output
        self.begins()

    @rule(
        sends=st.lists(st.tuples(rollouts, skips), max_size=4),
        steps=st.integers(0, 12),
        power=st.booleans(),
        kept=st.sampled_from([0.0, 0.5, 1.0]),
        ends=st.booleans(),
    )
    def it_dies(self, sends, steps, power, kept, ends):
        self.log.sync()  # all that a disk finds when it begins is durable
        with contextlib.suppress(DeathError), DyingDisk(self.root, steps, power=power, kept=kept):
            for rollout, skip in sends:
                self.send(rollout, skip)
            if ends:
                self.end()
            self.begins()
        self.boot += power
        self.begins()

    @rule(rollout=rollouts, skip=skips, steps=st.integers(0, 6))
    def the_disk_fails_once(self, rollout, skip, steps):
        with contextlib.suppress(StorageError), DyingDisk(self.root, steps, fails=True):
            self.send(rollout, skip)


TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(hypothesis.settings.default, stateful_step_count=20)


def test_no_attempt_is_the_next_one_whatever_was_sent_before_the_power_went_and_when():
    for first, second in itertools.product((0, 3, 5, 9), (0, 5)):
        for steps in range(14):
            lives = Lives()
            sends = [("0-0", first), ("0-0", second), ("1-0", first)]
            lives.it_dies(sends=sends, steps=steps, power=True, kept=0.0, ends=False)
            lives.teardown()


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_what_a_finished_row_used_is_known_to_another_output_however_many_starts_later(starts):
    lives = Lives()
    lives.a_row_is_sent("0-0", 3)
    lives.a_row_is_finished("0-0")
    for nth in range(starts, 0, -1):
        lives.the_run_ends_and_another_begins(moves=False, output="out" if nth > 1 else "other")
    lives.a_row_is_sent("0-0", 0)
    lives.teardown()
