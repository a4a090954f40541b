"""A job that Slurm preempts or stops, and puts back into the queue, is equal to a run that nobody stopped.

The batch scripts are those of the README, and the oracle that of `fuzz/`.
"""

import os
import signal

import pytest

from fuzz.oracle import judge, uninterrupted
from tests.slurm.jobs import Job, shown_scripts

pytestmark = [pytest.mark.slurm, pytest.mark.processes]

SLOW, FAST = 1.0, 60.0  # tokens a second: all rows take a minute and a half, or a few seconds
PLAIN, STAYING = shown_scripts()


@pytest.fixture(scope="module")
def wholes(cluster, tmp_path_factory):
    """What each row takes when nobody interrupts it."""
    job = Job(cluster, tmp_path_factory.mktemp("whole"))
    job.pace(FAST)
    job.submit(PLAIN)
    assert job.reaches("COMPLETED", ExitCode="0:0"), job.words()
    life, words = job.look()
    job.close()
    assert "succeeded + 0 failed + 0 left" in words
    measured = uninterrupted(life)
    assert judge([life], measured) == []
    return measured


def stopped(job, **but):
    """The life that was told to stop, with rows in flight."""
    life, words = job.look(**but)
    assert life.code == 75, words
    assert life.checkpoint.kept
    return life


def finishes(job, wholes):
    assert job.reaches("COMPLETED", ExitCode="0:0"), f"{job.facts()}\n{job.words()}"
    job.look()
    assert judge(job.seen, wholes) == []


def test_a_job_that_comes_back_before_its_predecessor_is_gone_waits_for_it_and_goes_on(job, wholes):
    script = PLAIN.replace("exec triocollect", "triocollect")  # TERM ends it, and the job with it
    job.pace(SLOW)
    job.submit(script)
    first = job.collector()
    job.hang()
    assert job.has(lines=1), job.words()
    job.preempt()
    assert job.reaches("PENDING", Restarts="1"), job.words()
    job.pace(FAST)
    before = job.processes()
    assert first in before, "it has a checkpoint to take, on a disk that hangs"
    job.come_back()
    assert job.says(f"another collector, process {first}"), job.words()
    (second,) = job.processes() - before
    os.kill(second, signal.SIGSTOP)
    job.go_on()
    stopped(job, but={second})
    assert job.facts()["JobState"] == "RUNNING"
    os.kill(second, signal.SIGCONT)
    finishes(job, wholes)


def test_a_job_whose_time_is_over_ends_with_75_and_goes_on_when_it_is_requeued(job, wholes):
    job.pace(SLOW)
    job.submit(PLAIN)
    assert job.has(lines=1), job.words()
    job.limit(minutes=2)
    assert job.reaches("FAILED", ExitCode="75:0"), job.words()
    stopped(job)
    job.pace(FAST)
    job.requeue()
    job.come_back()
    finishes(job, wholes)


def test_a_job_that_requeues_itself_goes_on_when_everybody_was_signalled_and_when_its_time_is_over(
    job, wholes
):
    job.pace(SLOW)
    job.submit(STAYING)
    assert job.has(lines=1), job.words()
    job.signal_all("TERM")  # the collector hears it twice: from Slurm, and from the script
    assert job.reaches("PENDING", Restarts="1"), job.words()
    life = stopped(job)
    job.come_back()
    assert job.has(lines=len(life.lines) + 1), job.words()
    job.limit(minutes=2)
    assert job.reaches("PENDING", Restarts="2"), job.words()
    stopped(job)
    job.pace(FAST)
    job.come_back()
    finishes(job, wholes)
