"""Which outcome answers whoever asks from another process, as the collector writes them."""

import subprocess
import sys
import time

import msgspec
import pytest

from triocollect.checkpoint.asking import ask
from triocollect.checkpoint.directory import OUTCOMES
from triocollect.protocol.manifests import CheckpointOutcome

pytestmark = pytest.mark.processes

PATIENCE_S = 60.0
COLLECTOR = """
import fcntl, os, signal, sys
from pathlib import Path
import msgspec
from triocollect.protocol.manifests import LockFile

signal.signal(signal.SIGUSR1, signal.SIG_IGN)
root = Path(sys.argv[1])
lock = (root / "collector.lock").open("wb", buffering=0)
fcntl.flock(lock, fcntl.LOCK_EX)
whose = LockFile(run="r", epoch=3, pid=os.getpid(), host=os.uname().nodename, started="")
lock.write(msgspec.json.encode(whose))
(root / "collector.pid").write_text(str(os.getpid()))
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def collector(tmp_path):
    """A process that holds the directory until its standard input is closed; the test writes its outcomes."""
    command = [sys.executable, "-c", COLLECTOR, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def told(folder, *then):
    """What who asks is told, where the next of these is done at each look."""
    steps = iter(then)
    return ask(folder, PATIENCE_S, lambda *_: next(steps, lambda: None)())


def outcome(number, **facts):
    facts = {"published": True, "epoch": 3, **facts}
    return CheckpointOutcome(operation=number, checkpoint_id=f"c-{number}", **facts)


def writing(folder, number, **facts):
    def write():
        one = outcome(number, **{"began": time.monotonic(), **facts})
        with (folder / OUTCOMES).open("ab") as file:
            file.write(msgspec.json.encode(one) + b"\n")

    return write


def test_one_that_had_begun_before_does_not_count_however_short_its_phases_were(tmp_path, collector):
    before = time.monotonic()
    answer = told(
        tmp_path,
        writing(tmp_path, 1, began=before, published=False, phases_s={"prepare": 0.0}),
        writing(tmp_path, 2),
    )
    assert answer.operation == 2


def test_a_stop_that_had_begun_before_counts_as_nothing_is_sent_after_it(tmp_path, collector):
    answer = told(tmp_path, writing(tmp_path, 1, began=time.monotonic() - 60, stopped=True))
    assert (answer.operation, answer.stopped) == (1, True)


def test_who_asks_a_collector_that_has_cut_its_stop_and_ends_hears_of_that_checkpoint(tmp_path, collector):
    writing(tmp_path, 1, stopped=True)()
    answer = told(tmp_path, collector.stdin.close)
    assert (answer.operation, answer.published) == (1, True)


@pytest.mark.parametrize("facts", [{"stopped": True, "epoch": 2}, {}])
def test_neither_an_earlier_collectors_stop_nor_a_checkpoint_that_rows_went_on_after_answers(
    tmp_path, collector, facts
):
    writing(tmp_path, 1, **facts)()
    answer = told(tmp_path, collector.stdin.close)
    assert not answer.published
    assert answer.reason == "the collector ended and took none after it was asked"
