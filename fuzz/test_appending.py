"""A whole line stays, half a line is no part of a file, and what comes amid a sync is not synced by that."""

import errno
import os

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import all_hold
from triocollect.collector.sinks import Sinks
from triocollect.durable import AppendFile
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.records.tail import mend_tail

FIRST, FAILS, NEXT = b'{"row": 1}\n', b'{"row": 2}\n', b'{"row": 3}\n'


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("taken", [1, 5, len(FAILS) - 1])
def test_half_a_line_is_gone_before_the_next_one_comes(tmp_path, monkeypatch, taken, again):
    """It is tried twice; the second time the disk takes nothing, or a few bytes."""
    path = tmp_path / "out.jsonl"
    file, write = AppendFile(path), os.write
    file.append(FIRST)
    room = [taken, again]

    def on_a_full_disk(descriptor, data):
        if not (most := room.pop(0)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:most])

    monkeypatch.setattr(os, "write", on_a_full_disk)
    with pytest.raises(StorageError):
        file.append(FAILS)
    monkeypatch.undo()
    all_hold((1, 15), path.read_bytes() == FIRST, f"after a line that failed there is {path.read_bytes()}")
    file.append(NEXT)
    all_hold((1, 15), path.read_bytes() == FIRST + NEXT, f"the next line made of it {path.read_bytes()}")
    file.close()


class Disk:
    """It takes its time for a sync: `comes` is called once, when the sync under way has its bytes already."""

    def __init__(self, monkeypatch, comes):
        self._sync, self._comes = os.fsync, [comes]
        monkeypatch.setattr(os, "fsync", self.sync)

    def sync(self, descriptor):
        self._sync(descriptor)
        while self._comes:
            self._comes.pop()()


def test_a_line_that_comes_amid_a_sync_has_to_be_synced_still(tmp_path, monkeypatch):
    file = AppendFile(tmp_path / "out.jsonl")
    file.append(FIRST)
    Disk(monkeypatch, lambda: file.append(NEXT))
    file.sync()
    all_hold((1, 15), file.unsynced, "a line came while the disk synced, and counts as synced")
    file.sync()
    assert not file.unsynced
    file.close()


def a_run(folder, acknowledges=None):
    return Sinks(AppendFile(folder / "out.jsonl"), AppendFile(folder / "failures.jsonl"), ack_fd=acknowledges)


@pytest.mark.parametrize("what", ["result", "failure"])
def test_a_row_that_comes_amid_a_sync_is_not_told_to_be_safe(tmp_path, monkeypatch, what):
    heard, tells = os.pipe()
    os.set_blocking(heard, False)
    sinks = a_run(tmp_path, tells)
    append = getattr(sinks, f"append_{what}")
    append(FIRST, EpisodeId("1-0"))
    Disk(monkeypatch, lambda: append(NEXT, EpisodeId("2-0")))
    sinks.sync()
    told = os.read(heard, 100)
    all_hold((1, 15), told == b"1-0\n", f"{told} is told to be safe, and 2-0 came while the disk synced")
    sinks.sync()
    assert os.read(heard, 100) == b"2-0\n"
    sinks.close()
    os.close(heard)
    os.close(tells)


async def unsynced_at_last(sinks, monkeypatch):
    """Of a run that goes on: a row comes while one before it is synced, and none after it."""

    async def blocking(work):
        await trio.lowlevel.checkpoint()
        work()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sinks.keep_synced, blocking)
        sinks.append_result(FIRST, EpisodeId("1-0"))
        Disk(monkeypatch, lambda: sinks.append_result(NEXT, EpisodeId("2-0")))
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    return sinks.output.unsynced


def test_a_row_that_comes_amid_a_sync_has_a_sync_of_its_own(tmp_path, monkeypatch):
    sinks = a_run(tmp_path)
    unsynced = trio.run(unsynced_at_last, sinks, monkeypatch, clock=MockClock(autojump_threshold=0))
    all_hold((1, 15), not unsynced, "a row came while the disk synced, and nobody syncs it")
    sinks.close()


def gone_on_behind(last, folder):
    """The output and what was set aside, when a run goes on where the one before left this behind a line."""
    path, torn = folder / "out.jsonl", folder / "torn"
    path.write_bytes(FIRST + last)
    file = AppendFile(path)
    mend_tail(file, torn)
    file.append(NEXT)
    file.close()
    return path, torn


@pytest.mark.parametrize("last", [b'{"row": 2}', b'{"row": "}"}', b"{}"])
def test_a_whole_line_that_lacks_its_newline_alone_stays(tmp_path, last):
    """Its row has a result: cut off, it would be played again."""
    path, torn = gone_on_behind(last, tmp_path)
    all_hold((1, 15), path.read_bytes() == FIRST + last + b"\n" + NEXT, f"there is {path.read_bytes()}")
    all_hold((1, 15), not torn.exists(), f"{last} was set aside, and is whole")


@pytest.mark.parametrize("last", [b'{"row": 2', b'{"row": 2}}', b"2", b"\0\0"])
def test_what_is_no_whole_line_is_set_aside(tmp_path, last):
    path, torn = gone_on_behind(last, tmp_path)
    all_hold((1, 15), path.read_bytes() == FIRST + NEXT, f"there is {path.read_bytes()}")
    assert torn.read_bytes() == last + b"\n"
