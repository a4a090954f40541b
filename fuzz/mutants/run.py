"""`python -m fuzz mutants`: plant each flaw in a copy of the tree, and see `pytest fuzz` name what it breaks.

A flaw is a patch against the package whose first line names an invariant, "invariant 5: why". The short
profile, and nothing else, has to turn red in its copy and to say "invariant 5 is broken"; the tree as it is
has to be green with the same seed. A patch that does not apply, or after which the package cannot be
imported, is none. `--replay` takes one patch, or a folder of them: anybody's.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen

from fuzz.commands import Options
from fuzz.invariants import INVARIANTS
from fuzz.mutants.order import in_order
from fuzz.tally import Tally

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = Path(__file__).parent / "patches"
LONGEST_S: Final = 1500.0  # the short profile takes a tenth of it; one that hangs is red, and names nothing
_COPIED: Final = ("triocollect", "tests", "fuzz", "pyproject.toml", "README.md")
_IMPORT_ALL: Final = """\
import importlib, pkgutil, triocollect
for module in pkgutil.walk_packages(triocollect.__path__, "triocollect."):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.startswith("triocollect"):
            raise
"""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) fuzz/(\w+)\.py", re.MULTILINE)
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
    """What the short profile said of a copy. `words`: its last lines; `where`: the last module in red."""

    red: bool
    named: frozenset[int]
    words: str
    where: str = ""


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


def import_fault(place: Path) -> str | None:
    """Why some module of the package in a copy cannot be imported."""
    words, environ = [sys.executable, "-c", _IMPORT_ALL], os.environ | {"PYTHONPATH": str(place)}
    done = subprocess.run(words, cwd=place, env=environ, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def short_profile(place: Path, seed: int, until: int | None) -> Seen:
    """Run it in a copy. It ends with the first failure that names invariant `until`."""
    modules = in_order((path.stem for path in (place / "fuzz").glob("test_*.py")), until)
    words = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=short"]
    words += [f"fuzz/{module}.py" for module in modules]
    words += [f"--hypothesis-seed={seed}"]
    words += [] if until is None else [f"--until-invariant={until}"]
    environ = os.environ | {"PYTHONPATH": str(place), "CI": ""}
    try:
        done = subprocess.run(
            words, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return Seen(red=True, named=frozenset(), words=f"not done after {LONGEST_S:.0f} s")
    said = done.stdout + done.stderr
    named = frozenset(map(int, re.findall(r"invariant (\d+) is broken", said)))
    where = ["", *_FAILED.findall(said)][-1]
    return Seen(done.returncode != 0, named, "\n".join(said.splitlines()[-15:]), where)


def seen_with(flaw: Flaw | None, seed: int) -> Seen:
    """Copy, plant, look. Raises ValueError where the patch does not apply, or breaks an import."""
    with tempfile.TemporaryDirectory(prefix="triocollect-") as folder:
        place = Path(folder)
        copy(place)
        if flaw is not None:
            plant(flaw, place)
        if (fault := import_fault(place)) is not None:
            raise ValueError(f"{'the tree' if flaw is None else flaw.name} cannot be imported: {fault}")
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
        for flaw, looked in zip(flaws, workers.map(partial(_looked_at, options.seed), flaws), strict=True):
            if looked.is_planted:
                tally.explored += 1
                tally.fault("flaw", flaw.name, str(flaw.invariant), "missed" if looked.fault else "named")
            print(looked.line, flush=True)
            if looked.fault is not None:
                again = f"python -m fuzz mutants --seed {options.seed} --replay {flaw.patch}"
                tally.violation(looked.fault, again)
        if clean.result().red:
            words = f"the clean tree is red with seed {options.seed}\n{clean.result().words}"
            tally.violation(words, f"pytest fuzz --hypothesis-seed={options.seed}")
        print("the tree as it is: " + ("red" if clean.result().red else "green"), flush=True)


@frozen
class _Looked:
    """What came of one flaw. `fault`: what is wrong with the tests, or with the patch."""

    line: str
    fault: str | None
    is_planted: bool


def _looked_at(seed: int, flaw: Flaw) -> _Looked:
    began, where, is_planted = time.monotonic(), "", True
    try:
        seen = seen_with(flaw, seed)
        fault, where = judged(flaw, seen), seen.where
    except ValueError as error:
        fault, is_planted = str(error), False
    seconds, word = time.monotonic() - began, "ok  " if fault is None else "MISS"
    line = f"{word} invariant {flaw.invariant:>2}  {seconds:4.0f} s  {flaw.name}  {where}"
    return _Looked(line, fault, is_planted)
