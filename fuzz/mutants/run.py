"""`python -m fuzz mutants`: plant each flaw in a copy of the tree, and see `pytest fuzz` name what it breaks.

A flaw is a patch against the package whose first line names an invariant, "invariant 5: why". The short
profile, and nothing else, has to turn red in its copy and to say "invariant 5 is broken"; the tree as it is
has to be green with the same seed. `--replay` takes one patch, or a folder of them: anybody's.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen

from fuzz.commands import Options
from fuzz.invariants import INVARIANTS
from fuzz.tally import Tally

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = Path(__file__).parent / "patches"
LONGEST_S: Final = 1500.0  # the short profile takes a tenth of it; one that hangs is red, and names nothing
_COPIED: Final = ("triocollect", "tests", "fuzz", "pyproject.toml", "README.md")
_NUMBER: Final = re.compile(r"\b(?:invariants?|I)[\s:#]*(\d+)", re.IGNORECASE)


@frozen
class Flaw:
    """A patch and the invariant that its first line names."""

    patch: Path
    invariant: int

    @property
    def name(self) -> str:
        """What the table calls it."""
        return self.patch.stem


@frozen
class Seen:
    """What the short profile said of a copy. `words`: its last lines."""

    red: bool
    named: frozenset[int]
    words: str


def flaw_of(patch: Path) -> Flaw:
    """Raises ValueError where the first line names no invariant that there is."""
    first = patch.read_text().partition("\n")[0]
    found = _NUMBER.search(first)
    if found is None or int(found[1]) not in INVARIANTS:
        raise ValueError(
            f"{patch}: the first line has to name an invariant, as 'invariant 5: why', not {first!r}"
        )
    return Flaw(patch.resolve(), int(found[1]))


def flaws_in(place: Path) -> list[Flaw]:
    """One patch, or all of a folder. Raises ValueError where there is none."""
    patches = sorted(place.glob("*.patch")) if place.is_dir() else [place]
    if not patches:
        raise ValueError(f"no *.patch in {place}")
    return [flaw_of(patch) for patch in patches]


def copy(place: Path) -> None:
    """The tree without what was made in it."""
    made = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=made)
        else:
            shutil.copy(source, place / name)


def plant(flaw: Flaw, place: Path, *options: str) -> None:
    """`options` of `git apply`. Raises ValueError where the patch does not apply."""
    words = ["git", "apply", "--recount", *options, str(flaw.patch)]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{flaw.patch.name} does not apply: {done.stderr.strip()}")


def short_profile(place: Path, seed: int, until: int | None) -> Seen:
    """Run it in a copy. It ends with the first failure that names invariant `until`."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "fuzz"]
    words += [f"--hypothesis-seed={seed}", "--ignore=fuzz/mutants"]
    words += [] if until is None else [f"--until-invariant={until}"]
    environ = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1", "CI": ""}
    try:
        done = subprocess.run(
            words, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return Seen(red=True, named=frozenset(), words=f"not done after {LONGEST_S:.0f} s")
    said = done.stdout + done.stderr
    named = frozenset(map(int, re.findall(r"invariant (\d+) is broken", said)))
    return Seen(red=done.returncode != 0, named=named, words="\n".join(said.splitlines()[-15:]))


def seen_with(flaw: Flaw | None, seed: int) -> Seen:
    """Copy, plant, look. Raises ValueError where the patch does not apply."""
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        place = Path(folder)
        copy(place)
        if flaw is not None:
            plant(flaw, place)
        return short_profile(place, seed, None if flaw is None else flaw.invariant)


def judged(flaw: Flaw, seen: Seen) -> str | None:
    """What is wrong with the tests, None where they found the flaw and named it."""
    if not seen.red:
        return f"{flaw.name}: nobody noticed it (invariant {flaw.invariant})"
    if flaw.invariant not in seen.named:
        others = ", ".join(map(str, sorted(seen.named))) or "none"
        return (
            f"{flaw.name}: red, but invariant {flaw.invariant} is not named (named: {others})\n{seen.words}"
        )
    return None


def explore(options: Options, tally: Tally) -> None:
    """All flaws, `jobs` at a time, and the clean tree."""
    flaws = flaws_in(PATCHES if options.replay is None else Path(options.replay))
    with ThreadPoolExecutor(options.jobs) as workers:
        clean = workers.submit(seen_with, None, options.seed)
        for flaw, seen in zip(flaws, workers.map(partial(_looked_at, options.seed), flaws), strict=True):
            fault = seen if isinstance(seen, str) else judged(flaw, seen)
            tally.explored += 1
            tally.fault("flaw", flaw.name, str(flaw.invariant), "named" if fault is None else "missed")
            print(
                f"{'ok  ' if fault is None else 'MISS'} invariant {flaw.invariant:>2}  {flaw.name}",
                flush=True,
            )
            if fault is not None:
                tally.violation(fault, f"python -m fuzz mutants --seed {options.seed} --replay {flaw.patch}")
        if clean.result().red:
            words = f"the clean tree is red with seed {options.seed}\n{clean.result().words}"
            tally.violation(words, f"pytest fuzz --hypothesis-seed={options.seed}")


def _looked_at(seed: int, flaw: Flaw) -> Seen | str:
    try:
        return seen_with(flaw, seed)
    except ValueError as error:
        return str(error)
