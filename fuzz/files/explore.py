"""`python -m fuzz files`: harmed files by the hundred thousand, against an oracle that reads bytes.

One case is a number: it decides which run left the files, which of them are harmed and how, twice where two
faults meet, and what then reads them.
"""

import hashlib
import os
import random
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

import msgspec
from attrs import frozen

from fuzz.commands import Options
from fuzz.files.directory import check_ladder, check_lock, check_log, check_records, check_rest
from fuzz.files.harms import HARMS, SIGNED, TOTAL, Dice, Harm, packed
from fuzz.files.left import CHECKPOINTS, Left, leave
from fuzz.files.oracle import as_collection
from fuzz.files.rows import check_input, check_materialised, check_output, check_run_file, check_sidecar
from fuzz.files.start import check_commands, check_start
from fuzz.invariants import BrokenError
from fuzz.jobs import share
from fuzz.scratch import scratch
from fuzz.tally import Tally

LATEST: Final = f"{CHECKPOINTS}/LATEST"
RUNS: Final = 32  # that leave different files
MOST_VIOLATIONS: Final = 10  # told by one process


@frozen
class Place:
    """What reads, which files it reads, by the ends of their names, and how often this is chosen."""

    reads: tuple[str, ...]
    check: Callable[[Path, Left], str]
    weight: int


PLACES: Final = {
    "output": Place(("out.jsonl",), check_output, 26),
    "sidecar": Place(("out_failures.jsonl",), check_sidecar, 14),
    "input": Place(("in.jsonl",), check_input, 12),
    "rows": Place(("inputs.jsonl",), check_materialised, 6),
    "run file": Place(("_run.json",), check_run_file, 4),
    "LATEST": Place(("LATEST",), check_ladder, 6),
    "collection": Place(("collection.json", "LATEST"), check_ladder, 6),
    "signed": Place(("collection.json",), check_ladder, 4),
    "manifest": Place(("manifest.json",), check_records, 4),
    "records": Place(("0.jsonl", "f.jsonl", "7.jsonl", "b.jsonl", "collection.json"), check_records, 4),
    "log": Place(("dispatched.jsonl",), check_log, 12),
    "lock": Place(("collector.lock",), check_lock, 4),
    "rest": Place(("outcomes.jsonl", "collector.pid"), check_rest, 4),
    "start": Place(("",), check_start, 2),
    "commands": Place(("",), check_commands, 1),
}


class Bench:
    """A folder in memory, where one run after the other is put and harmed."""

    def __init__(self) -> None:
        self.root: Final = scratch()
        self._left: Final[dict[int, Left]] = {}

    def __enter__(self) -> Self:
        self._sync, os.fsync = os.fsync, lambda _descriptor: None  # nobody cuts the power of this disk
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync = self._sync
        shutil.rmtree(self.root)

    def at(self, seed: int) -> tuple[Path, Left]:
        """The folder of one of the runs, as it was left."""
        folder = self.root / str(seed)
        if seed not in self._left:
            self._left[seed] = leave(folder, seed)
            self._left[seed].put(folder)
        return folder, self._left[seed]


def sign(folder: Path, name: str, data: bytes) -> None:
    """Have LATEST name this collection with its digest, as a forger would."""
    collection = as_collection(data)
    told = {
        "checkpoint_id": "c-1" if collection is None else collection.checkpoint_id,
        "sequence": int(Path(name).parent.name.removeprefix("ckpt-")),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    (folder / LATEST).write_bytes(msgspec.json.encode(told))


def harm(dice: Dice, data: bytes, harms: Mapping[str, Harm]) -> tuple[bytes, list[str]]:
    """Other bytes, and which of the harms there is something left of."""
    before, done = data, list[str]()
    for name in dice.choices(list(harms), k=dice.choice((1, 1, 2))):
        harmed = harms[name](dice, data)
        if harmed != data:  # not every harm finds something to do
            done = [name] if name in TOTAL else [*done, name]
        data = harmed
    return data, done if data != before else []


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def live(bench: Bench, place: str, number: int, tally: Tally) -> None:
    """One case. Raises BrokenError, and whatever the package raises that it should not."""
    dice = random.Random(number)
    folder, left = bench.at(dice.randrange(RUNS))
    reads, several = PLACES[place].reads, place in {"start", "commands"}
    names = [name for name in left.files if name.endswith(reads)]
    if not names:
        return
    harmed = dice.sample(names, min(len(names), dice.choice((1, 1, 2)) if several else 1))
    done, state = [], []
    try:
        for name in harmed:
            data = left.files[name]
            if place == "input" and dice.random() < 0.4:
                data = packed(dice, data)
            data, what = harm(dice, data, SIGNED if place == "signed" else HARMS)
            done += what
            state.append(f"{name} {_digest(data.replace(bytes(folder), b'.'))}")
            (folder / name).write_bytes(data)
            if place == "signed":
                sign(folder, name, data)
        outcome = PLACES[place].check(folder, left)
    finally:
        if several:
            left.put(folder)
        else:
            for name in {*harmed, *([LATEST] if place == "signed" else [])}:
                (folder / name).write_bytes(left.files[name])
            (folder / "out_torn.jsonl").unlink(missing_ok=True)
    for one in done:
        tally.fault(one, place, f"{folder.name}: {', '.join(sorted(state))}", outcome)
    tally.explored += bool(done)


def try_one(bench: Bench, place: str, number: int, tally: Tally) -> None:
    """One case, and the violation that it may be."""
    again = f"python -m fuzz files --replay {place.replace(' ', '_')}:{number}"
    try:
        live(bench, place, number, tally)
    except BrokenError as error:
        tally.violation(f"{place}: {error}", again)
    except Exception as error:  # noqa: BLE001  # whatever it is, the package should not have raised it
        where = "".join(traceback.format_exception(error)[-4:])
        # A start that breaks would break each time: there is no rerun.
        told = BrokenError(15 if place == "start" else "words", f"{type(error).__name__}: {error}\n{where}")
        tally.violation(f"{place}: {told}", again)


def cases(seed: int) -> Iterator[tuple[str, int]]:
    """One after the other, without end."""
    dice, weights = random.Random(seed), [place.weight for place in PLACES.values()]
    while True:
        for place in dice.choices(list(PLACES), weights, k=100):
            yield place, dice.getrandbits(48)


def some(options: Options, tally: Tally) -> None:
    """The work of one process."""
    until = time.monotonic() + options.seconds
    with Bench() as bench:
        for place, number in cases(options.seed):
            try_one(bench, place, number, tally)
            if time.monotonic() > until or len(tally.violations) >= MOST_VIOLATIONS:
                return


def explore(options: Options, tally: Tally) -> None:
    """See `python -m fuzz files`."""
    if options.replay is not None:
        told, _, number = options.replay.rpartition(":")
        if (place := told.replace("_", " ")) not in PLACES:
            raise ValueError(f"there is no place {place!r}")
        with Bench() as bench:
            try_one(bench, place, int(number), tally)
    else:
        share(some, options, tally)
