"""A line of which a disk takes half is no part of the file, also where the next one follows."""

import errno
import os

import pytest

from fuzz.invariants import all_hold
from triocollect.durable import AppendFile
from triocollect.errors import StorageError

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
