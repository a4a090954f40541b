"""Which files of a server's folder are whose, and which of them still count. Pure.

    ledger-<number, 6 digits>.jsonl                of a process that is alone
    ledger-<number>-<worker>of<workers>.jsonl      of one of several, about the rollouts that are its own

A file has a number above all that were there when it was begun. So of a rollout the latest file says
everything, among those of the processes that it belonged to, one for each number of workers that there was.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

_NAME: Final = re.compile(r"ledger-(\d{6,})(?:-(\d+)of(\d+))?\.jsonl")

Owner: TypeAlias = Callable[[str, int], int]  # which of so many workers a rollout belongs to, from 1


class Share(NamedTuple):
    """What one process keeps: as the worker of this number, from 1, of so many."""

    number: int = 1
    of: int = 1


ALONE: Final = Share()


class LedgerFile(NamedTuple):
    """One file, by its name."""

    number: int
    share: Share
    path: Path


def name_of(number: int, share: Share) -> str:
    """What a file is called."""
    whose = "" if share == ALONE else f"-{share.number}of{share.of}"
    return f"ledger-{number:06}{whose}.jsonl"


def named(path: Path) -> LedgerFile | None:
    """What the name says; None for a file that is none of ours."""
    if (found := _NAME.fullmatch(path.name)) is None:
        return None
    number, worker, of = (int(one or 1) for one in found.groups())
    return LedgerFile(number, Share(worker, of), path) if 1 <= worker <= of else None


def in_turn(files: Collection[LedgerFile], share: Share) -> Iterator[tuple[Share, Sequence[LedgerFile]]]:
    """What the process of this share has to read: share by share, the one that was begun last at the end.

    Those of the workers beside it say nothing of its rollouts.
    """
    foreign = sorted((one for one in files if one.share == share or one.share.of != share.of), key=_by_share)
    shares = [(whose, tuple(of_one)) for whose, of_one in groupby(foreign, key=lambda one: one.share)]
    yield from sorted(shares, key=lambda one: one[1][-1].number)


def outlived(files: Collection[LedgerFile], number: int, share: Share) -> Iterator[Path]:
    """The files that say nothing any more, as this share has begun the file of this number.

    Of another number of workers: when each of the present ones has begun a later one.
    """
    latest = {one.share.number: one.number for one in sorted(files) if one.share.of == share.of}
    latest[share.number] = number
    all_have = min(latest.values()) if len(latest) == share.of else 0
    for one in files:
        if one.number < (number if one.share == share else all_have if one.share.of != share.of else 0):
            yield one.path


def _by_share(one: LedgerFile) -> tuple[Share, int]:
    return one.share, one.number
