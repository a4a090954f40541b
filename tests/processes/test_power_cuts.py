"""What a run has acknowledged or published survives every cut of the power, and every start after one works.

The disk is a real one whose power goes; the accounts of the servers are on another.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuzz.disk.mounted import Disk, on_a_machine_booted_anew, take_down_strays
from tests.processes.commands import until
from tests.processes.lives import PATIENCE_S, Lives, broken
from triocollect.checkpoint.directory import read_outcomes
from triocollect.durable import sync_folder

pytestmark = [pytest.mark.root, pytest.mark.processes]

CUTS, SEED = 4, 20240831
COMMAND = (sys.executable, "-m", "triocollect")
FORGETFUL = (sys.executable, Path(__file__).with_name("forgetful.py"))


@pytest.fixture
def disk(tmp_path):
    take_down_strays()
    try:
        disk = Disk(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs mounts of XFS: {getattr(error, 'stderr', '') or error}")
    try:
        (tmp_path / "accounts").mkdir()
        (disk.place / "accounts").symlink_to(tmp_path / "accounts")
        sync_folder(disk.place)
        yield disk
    finally:
        disk.take_down()


class Cuts:
    """Lives on a disk, which end with it."""

    def __init__(self, disk):
        self._disk = disk
        self.lives = Lives(disk.place, rows=128, tokens_per_s=4.0)
        self.published = 0  # the number of the checkpoint that was last said to be published

    def live(self, pause_s=None, *, program=COMMAND):
        """A life that acknowledges rows, is asked for a checkpoint, and has its power cut.

        So long after it was asked; None: when the checkpoint is said to be published.
        """

        def act(run):
            assert until(lambda: self.lives.acknowledged or run.poll() is not None, PATIENCE_S)
            run.send_signal(signal.SIGUSR1)
            if pause_s is None:
                assert until(lambda: self._told() > self.published or run.poll() is not None, PATIENCE_S)
            else:
                time.sleep(pause_s)
            self.published = max(self.published, self._told())
            self._disk.cut_power()
            run.kill()
            run.wait()
            assert until(lambda: not self.lives.servers(), PATIENCE_S)
            self._disk.switch_off()
            self._disk.switch_on()

        return self.lives.live(act, program=on_a_machine_booted_anew(self._disk, program))

    def _told(self):
        outcomes, _ = read_outcomes(self.lives.folder / "ckpt")
        ids = [outcome.checkpoint_id for outcome in outcomes if outcome.published]
        return max((int(one.split("-")[1]) for one in ids), default=0)


def test_what_was_acknowledged_or_published_survives_every_cut_of_the_power(disk):
    dice, cuts, called = random.Random(SEED), Cuts(disk), set()
    for nth in range(CUTS):
        life, words = cuts.live(dice.uniform(0.0, 0.3) if nth % 2 else None)
        assert life.code in {-signal.SIGKILL, 1}, words  # it may have seen the disk go before it went itself
        assert broken(life, cuts.published) == []
        assert called.isdisjoint(life.calls), "an attempt was used again"
        called |= life.calls.keys()
    life, words = Lives(disk.place, rows=128).live(program=on_a_machine_booted_anew(disk, COMMAND))
    assert life.code == 0, words
    assert broken(life, cuts.published) == []
    assert sorted(line.task for line in life.lines) == list(range(128))


def test_a_cut_of_the_power_takes_what_was_acknowledged_and_not_synced(disk):
    life, _ = Cuts(disk).live(program=FORGETFUL)
    assert [what for what in broken(life) if "acknowledged" in what]
