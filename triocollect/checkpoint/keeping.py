"""Which checkpoints stay beside what LATEST names: the newest whole one of each output below it.

Of the run's own output it is where a restart climbs down to. Of another output, which was collected with the
same directory before, it holds rows in flight that are nowhere else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from triocollect.checkpoint.names import COLLECTION
from triocollect.durable import read_at_most
from triocollect.protocol.manifests import MOST_COLLECTION_BYTES, Collection

ANY: Final = ""  # it does not say, so whichever output climbs down to it takes it


def newest_of_each(
    folders: Mapping[int, Path], below: int | None, is_whole: Callable[[int], bool]
) -> set[int]:
    """Numbers among `folders` and lower than `below` (None: all). Asks `is_whole` of as few as it can."""
    newest = dict[str, int]()
    for number in sorted(folders, reverse=True):
        if below is None or number < below:
            output = output_of(folders[number])
            if output is None or output in newest or (newest and output == ANY):
                continue
            if is_whole(number):
                newest[output] = number
    return set(newest.values())


def output_of(folder: Path) -> str | None:
    """The run of the output whose rows it holds; None where it cannot be read."""
    try:
        collection = msgspec.json.decode(
            read_at_most(folder / COLLECTION, MOST_COLLECTION_BYTES), type=Collection
        )
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ANY if collection.output is msgspec.UNSET else collection.output
