"""Who holds a lock, as the kernel's table tells it, whose numbers may be those of files elsewhere."""

import os
import subprocess
import sys

import pytest

from triocollect import locking
from triocollect.locking import holder_of

pytestmark = pytest.mark.processes

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holding():
    """Starts processes that hold a lock on a file."""
    processes = []

    def start(path):
        command = [sys.executable, "-c", HOLDER, path]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        processes[-1].stdout.readline()
        return processes[-1].pid

    yield start
    for process in processes:
        process.communicate()


def name_of(path, *, device=None):
    there = path.stat()
    shown = there.st_dev if device is None else device
    return f"{os.major(shown):02x}:{os.minor(shown):02x}:{there.st_ino}"


def table(*locks):
    """What the kernel shows of (process, file)."""
    return "".join(
        f"{number}: FLOCK  ADVISORY  WRITE {pid} {name} 0 EOF\n"
        for number, (pid, name) in enumerate(locks, 1)
    )


def test_who_holds_a_lock_is_told_and_nobody_once_it_is_gone(tmp_path, holding):
    path = tmp_path / "lock"
    assert holder_of(path) is None
    pid = holding(path)
    assert holder_of(path) == pid
    path.unlink()
    path.touch()
    assert holder_of(path) is None, "it is another file now"


@pytest.mark.parametrize("shown_by_its_device", [True, False])
def test_a_lock_on_a_file_elsewhere_with_the_same_number_hides_nobody_and_is_nobodys(
    tmp_path, holding, monkeypatch, shown_by_its_device
):
    path, elsewhere, shown = tmp_path / "lock", tmp_path / "elsewhere", tmp_path / "locks"
    pid, other = holding(path), holding(elsewhere)
    monkeypatch.setattr(locking, "_LOCKS", shown)
    ours = name_of(path) if shown_by_its_device else name_of(path, device=os.makedev(0xFE, 1))
    theirs = name_of(path, device=os.makedev(0xFE, 2))
    shown.write_text(table((other, theirs), (pid, ours)))
    assert holder_of(path) == pid
    shown.write_text(table((other, theirs)))
    assert holder_of(path) is None


def test_a_lock_that_a_process_left_to_its_child_is_told_by_its_name(tmp_path, monkeypatch):
    path, shown = tmp_path / "lock", tmp_path / "locks"
    path.touch()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    monkeypatch.setattr(locking, "_LOCKS", shown)
    shown.write_text(table((gone.pid, name_of(path))))
    assert holder_of(path) == gone.pid
