"""One collector in one directory, whoever died there before and whatever is left."""

import contextlib
import os
import re
import subprocess
import sys

import msgspec
import pytest
import trio

from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.directory import (
    Directory,
    open_directory,
    read_lock,
    read_outcomes,
    read_pid,
)
from triocollect.errors import DamageError, LockedError, StorageError, UsageError
from triocollect.protocol.manifests import CheckpointOutcome, LockFile

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "deep" / "ckpt"


async def enter(root, *, wait_s=None, warn=pytest.fail) -> Directory:
    return await open_directory(root, wait_s=wait_s, warn=warn)


def names(root):
    return sorted(path.name for path in root.iterdir())


async def test_a_run_keeps_its_id_and_counts_its_collectors(root):
    runs, epochs = set(), []
    for seen in (0, 0, 7, 3):
        directory = await enter(root)
        epochs.append(directory.raise_epoch(seen))
        assert directory.epoch == epochs[-1]
        assert directory.fault is None
        runs.add(directory.run)
        directory.close()
    assert epochs == [1, 2, 8, 9]
    assert len(runs) == 1
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / "collector.lock").stat().st_mode & 0o777 == 0o600
    assert names(root) == ["collector.lock"]


async def test_two_directories_are_two_runs(tmp_path):
    first, second = await enter(tmp_path / "one"), await enter(tmp_path / "two")
    assert first.run != second.run
    first.close()
    second.close()


async def test_a_second_collector_is_refused_by_name_before_and_after_the_epoch_is_raised(root):
    directory = await enter(root)
    said = re.escape(f"{root} is in use by another collector, process {os.getpid()}")
    for _ in range(3):
        with pytest.raises(LockedError, match=said):
            await enter(root)
        directory.raise_epoch()
    with pytest.raises(LockedError, match=r"waited 5 s"):
        await enter(root, wait_s=5.0, warn=len)
    directory.close()
    (await enter(root)).close()


async def test_a_collector_that_may_wait_says_so_and_comes_in_when_the_first_one_leaves(root):
    first = await enter(root)
    entered, said = [], []

    async def second():
        directory = await enter(root, wait_s=60.0, warn=said.append)
        entered.append((trio.current_time(), directory.raise_epoch()))
        directory.close()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second)
        await trio.sleep(7)  # the second one waits for the file that was there before the epoch was raised
        assert first.raise_epoch() == 1
        await trio.sleep(7)
        assert not entered
        first.close()
    assert entered[0][1] == 2
    assert 14 <= entered[0][0] - began < 15
    holder = f"another collector, process {os.getpid()} on {os.uname().nodename}"
    assert said == [f"{root} is in use by {holder}; waiting up to 60 s for its end"]


HOLDER = """
import sys, trio
from pathlib import Path
from triocollect.checkpoint.directory import open_directory
async def main():
    directory = await open_directory(Path(sys.argv[1]), wait_s=None, warn=print)
    print(directory.raise_epoch(), flush=True)
    sys.stdin.read()
trio.run(main)
"""


@pytest.mark.processes
async def test_a_killed_collector_leaves_no_lock_behind(root):
    command = [sys.executable, "-c", HOLDER, str(root)]
    with subprocess.Popen(  # noqa: ASYNC220  # the holder is no task of ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"1\n"
        with pytest.raises(LockedError, match=f"process {holder.pid} on {os.uname().nodename}"):
            await enter(root)
        holder.kill()
    directory = await enter(root)
    assert directory.raise_epoch() == 2
    directory.close()


@pytest.mark.parametrize(
    "content", [b"\0" * 64, b"{", b"[]", b"\xff", b'{"run":"","epoch":1,"pid":1,"host":"n","started":"s"}']
)
async def test_a_damaged_lock_file_costs_the_run_id_and_no_start(root, content):
    (await enter(root)).close()
    (root / "collector.lock").write_bytes(content)
    with pytest.raises(DamageError):
        read_lock(root)
    directory = await enter(root)
    assert f"{root / 'collector.lock'} is damaged" in directory.fault
    assert directory.raise_epoch(seen=41) == 42
    assert read_lock(root).run == directory.run
    directory.close()


@pytest.mark.parametrize("power", [True, False], ids=["power cut", "kill"])
@pytest.mark.parametrize("steps", range(4))
async def test_a_death_while_the_epoch_is_raised_leaves_the_old_one_or_the_new_one(root, steps, power):
    directory = await enter(root)
    directory.raise_epoch()
    with contextlib.suppress(DeathError), DyingDisk(root, steps, power=power):
        directory.raise_epoch()
    directory.close()
    lock = read_lock(root)
    assert (lock.run, lock.epoch) in {(directory.run, 1), (directory.run, 2)}
    assert steps < 3 or lock.epoch == 2


@pytest.mark.parametrize("steps", range(3))
async def test_an_epoch_that_is_not_durable_is_not_taken_and_the_lock_holds(root, steps):
    directory = await enter(root)
    with DyingDisk(root, steps, fails=True), pytest.raises(StorageError):
        directory.raise_epoch()
    assert directory.epoch == 0
    with pytest.raises(LockedError):
        await enter(root)
    assert directory.raise_epoch() == 1
    directory.back_out()
    directory.close()
    assert names(root) == ["collector.lock"]


async def test_a_collector_on_another_host_that_took_the_directory_is_found_out(root):
    directory = await enter(root)
    directory.raise_epoch()
    directory.confirm()
    other = LockFile(run=directory.run, epoch=2, pid=7, host="n9", started="2026-01-02T03:04:05+00:00")
    (root / "collector.lock").write_bytes(msgspec.json.encode(other))
    with pytest.raises(LockedError, match="taken over by another collector, process 7 on n9"):
        directory.confirm()
    (root / "collector.lock").write_bytes(b"")
    directory.confirm()
    directory.close()


async def test_the_lock_file_says_who_collects(root):
    directory = await enter(root)
    directory.raise_epoch()
    directory.close()
    lock = read_lock(root)
    assert (lock.pid, lock.host) == (os.getpid(), os.uname().nodename)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", lock.started)


OURS = "ours"


@pytest.mark.parametrize("stale", [OURS, "1\n", "", "nonsense", "99999999\n"])
async def test_a_pid_file_is_never_another_collector(root, stale):
    root.mkdir(parents=True)
    (root / "collector.pid").write_text(f"{os.getpid()}\n" if stale is OURS else stale)
    directory = await enter(root)
    directory.raise_epoch()
    directory.write_pid()
    assert (root / "collector.pid").read_bytes() == b"%d\n" % os.getpid()
    directory.remove_pid()
    assert names(root) == ["collector.lock"]
    directory.close()


async def test_the_pid_of_a_successor_is_not_taken_away(root):
    directory = await enter(root)
    (root / "collector.pid").write_bytes(b"1\n")
    directory.remove_pid()
    assert read_pid(root) == 1
    directory.close()


def test_no_pid_is_no_process(tmp_path):
    assert read_pid(tmp_path) is None
    (tmp_path / "collector.pid").write_bytes(b"-5\n")
    assert read_pid(tmp_path) is None


async def test_a_lone_carriage_return_ends_no_outcome(root):
    directory = await enter(root)
    first = CheckpointOutcome(operation=1, checkpoint_id="c-1", published=True)
    directory.append_outcome(first)
    path = root / "outcomes.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r") + path.read_bytes())
    assert read_outcomes(root)[0] == [], "it is one line, and a damaged one"
    directory.close()


async def test_outcomes_are_read_from_where_one_stopped(root):
    directory = await enter(root)
    assert read_outcomes(root) == ([], 0)
    first, second = (
        CheckpointOutcome(operation=number, checkpoint_id=f"c-{number}", published=True) for number in (1, 2)
    )
    directory.append_outcome(first)
    assert read_outcomes(root)[0] == [first]
    end = read_outcomes(root)[1]
    with (root / "outcomes.jsonl").open("ab") as file:
        file.write(b'{"operation":')  # its writer died
    assert read_outcomes(root, end) == ([], end)
    directory.append_outcome(second)
    assert read_outcomes(root, end)[0] == [second]
    assert read_outcomes(root)[0] == [first, second]
    assert (root / "outcomes.jsonl").stat().st_mode & 0o777 == 0o600
    directory.close()


async def test_backing_out_leaves_no_trace_of_a_run_that_was_refused(root):
    directory = await enter(root)
    directory.back_out()
    directory.close()
    assert not root.parent.exists()
    root.mkdir(parents=True)
    (root / "notes.txt").write_text("mine")
    directory = await enter(root)
    directory.back_out()
    directory.close()
    assert names(root) == ["notes.txt"]


@pytest.mark.parametrize("place", ["file", "file/below"])
async def test_a_place_that_cannot_be_a_directory_is_the_users_mistake(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--checkpoint-dir: cannot write to .*; name another directory"):
        await enter(tmp_path / place)


async def test_a_power_cut_does_not_lose_a_directory_that_has_been_opened(tmp_path):
    with DyingDisk(tmp_path, 1000):
        directory = await enter(tmp_path / "a" / "b")
        directory.raise_epoch()
    directory.close()
    assert read_lock(tmp_path / "a" / "b").epoch == 1
