"""A torn tail: what a killed writer left behind the last newline.

Decided by the missing newline alone, never by a parser's message: a valid line may end in what reads like a
truncation.
"""

from pathlib import Path

import msgspec

from triocollect.durable import AppendFile, open_file, unreadable
from triocollect.errors import DamageError
from triocollect.protocol.values import NOT_JSON
from triocollect.records.lines import MAX_LINE_BYTES

_BACKWARDS_BYTES = 1 << 20


def read_tail(path: Path) -> bytes:
    """The bytes behind the last newline; empty for a whole or missing file.

    Raises DamageError for a tail larger than any line, StorageError where the file cannot be read.
    """
    try:
        with open_file(path) as file:
            end = file.seek(0, 2)
            tail, begin = b"", end
            while begin and b"\n" not in tail:
                if len(tail) > MAX_LINE_BYTES:
                    raise DamageError(
                        f"{path}: the last {len(tail)} bytes hold no newline; is this a JSONL file?"
                    )
                begin = max(0, begin - _BACKWARDS_BYTES)
                file.seek(begin)
                tail = file.read(min(_BACKWARDS_BYTES, end - begin - len(tail))) + tail
            return tail.rpartition(b"\n")[2]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unreadable(path, error) from error


def is_whole_object(tail: bytes) -> bool:
    """Whether only the newline is missing."""
    try:
        tail.decode()
        msgspec.json.decode(tail, type=dict[str, msgspec.Raw])
    except NOT_JSON:
        return False
    return True


def mend_tail(file: AppendFile, torn: Path) -> str | None:
    """Make the file end in a newline before anything is appended; say what was done.

    A whole object gets its newline. Anything else is cut off and kept in `torn`, which is durable before the
    cut.
    """
    tail = read_tail(file.path)
    if not tail:
        return None
    if is_whole_object(tail):
        file.append(b"\n")
        return f"{file.path}: the last line had no newline; added"
    keep = AppendFile(torn)
    try:
        keep.append(tail + b"\n")
        keep.sync()
    finally:
        keep.close()
    file.truncate(file.size - len(tail))
    return (
        f"Dropped a truncated final line ({len(tail)} bytes) from {file.path} before resuming; kept in {torn}"
    )
