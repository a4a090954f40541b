"""No attempt that may have been sent is the next one, over runs, kills, power cuts and other machines."""

import contextlib
import itertools
import shutil
import tempfile
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from fuzz.invariants import holds
from fuzz.scratch import SCRATCH
from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.sent import read_dispatched
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import DispatchHeader

skips = st.sampled_from([0, 3, 4, 5])  # around what is reserved ahead
rollouts = st.sampled_from(["0-0", "1-0", "2-0"])


class Lives(RuleBasedStateMachine):
    """One directory. A run is `log`; `used`: the highest attempt that may have been sent, of each rollout.

    `boot`: the machine that collects. Only a rollout that was never sent may be at -1.
    """

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="dispatched-", dir=SCRATCH))
        self.path = self.root / "dispatched.jsonl"
        self.boot, self.log, self.past = 0, None, None
        self.used = {}
        try:
            self.begins()
        except BaseException:
            self.teardown()  # who was never there is not torn down
            raise

    def teardown(self):
        if self.log is not None:
            self.log.close()
        shutil.rmtree(self.root)

    def begins(self):
        """A run starts on whatever machine there is now; the one before is no more."""
        if self.log is not None:
            self.log.close()
            self.log = None
        first = not self.path.exists()
        self.past = read_dispatched(self.path, boot=str(self.boot))
        holds(2, self.past.complete != first, f"a log that was there is complete: {self.past.complete}")
        for rollout, attempt in self.used.items():
            following = self.past.next_attempt(rollout)
            holds(2, following > attempt, f"{rollout} goes on as {following}, and {attempt} was used")
        header = DispatchHeader(
            "4f2c", 1, 0, reserved=0, floor=self.past.floor, start=self.past.start, used=self.past.used
        )
        self.log = start_dispatched(self.path, header, self.past.attempts, boot=str(self.boot))

    def send(self, rollout, skip):
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

    @rule(moves=st.booleans())
    def the_run_ends_and_another_begins(self, moves):
        self.end()
        self.boot += moves
        self.begins()

    @rule()
    def the_collector_is_killed(self):
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
