"""How many faults were injected, how many of them differ, and what became of them.

A fault is one (kind, place, scenario): what was done, where in the run, to which run. Each is kept as eight
bytes of its digest, so that a million fit in a file of eight megabytes and a fault that is injected twice, by
one command or two, counts once.
"""

import hashlib
import shlex
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(".fuzz")
_DIGEST_BYTES: Final = 8


class Kind(msgspec.Struct):
    """All faults of one kind. `digests`: eight bytes for each that differs; `outcomes`: how often."""

    injected: int
    digests: bytes
    outcomes: dict[str, int]

    def each(self) -> Iterator[bytes]:
        """One digest after the other."""
        return (self.digests[at : at + _DIGEST_BYTES] for at in range(0, len(self.digests), _DIGEST_BYTES))

    @property
    def distinct(self) -> int:
        """How many differ."""
        return len(self.digests) // _DIGEST_BYTES


class Account(msgspec.Struct):
    """What a command did. `explored`: whole schedules, states or files; `violations`: what broke."""

    command: str
    seed: int
    explored: int
    seconds: float
    kinds: dict[str, Kind]
    violations: list[str]


class Tally:
    """Counts while a command works; several processes each have one, and one of them takes the others in."""

    def __init__(self, command: str, seed: int) -> None:
        self.command, self.seed = command, seed
        self.explored = 0
        self.violations: list[str] = []
        self._began = time.monotonic()
        self._injected: Counter[str] = Counter()
        self._digests: defaultdict[str, set[bytes]] = defaultdict(set)
        self._outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def fault(self, kind: str, place: str, scenario: str, outcome: str) -> None:
        """Count one that was really injected. `outcome`: what became of it, one of a few."""
        told = hashlib.blake2b(f"{kind}\0{place}\0{scenario}".encode(), digest_size=_DIGEST_BYTES)
        self._injected[kind] += 1
        self._digests[kind].add(told.digest())
        self._outcomes[kind][outcome] += 1

    def replay(self, text: str) -> str:
        """The command that lives what `text` names once more, as a shell takes it."""
        return f"python -m fuzz {self.command} --replay {shlex.quote(text)}"

    def violation(self, what: str, replay: str) -> None:
        """What broke, and the command that shows it again."""
        self.violations.append(f"{what}\nto see it again: {replay}")

    def take_in(self, account: Account) -> None:
        """Add what another process counted."""
        self.explored += account.explored
        self.violations += account.violations
        for name, kind in account.kinds.items():
            self._injected[name] += kind.injected
            self._digests[name].update(kind.each())
            self._outcomes[name].update(kind.outcomes)

    def account(self) -> Account:
        """What was counted until now."""
        kinds = {
            name: Kind(count, b"".join(sorted(self._digests[name])), dict(self._outcomes[name]))
            for name, count in sorted(self._injected.items())
        }
        seconds = round(time.monotonic() - self._began, 3)
        return Account(self.command, self.seed, self.explored, seconds, kinds, self.violations)


def keep(account: Account, folder: Path = FOLDER) -> Path:
    """Write it down for `report`; one file for each command and seed, the latest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{account.command}-{account.seed}.msgpack"
    draft = path.with_suffix(".tmp")  # a disk that is full leaves no half of one
    draft.write_bytes(msgspec.msgpack.encode(account))
    return draft.replace(path)


def kept(folder: Path = FOLDER) -> list[Account]:
    """All that were written down. Raises ValueError, which names the file, for what is no account."""
    return [_read(path) for path in sorted(folder.glob("*.msgpack"))]


def _read(path: Path) -> Account:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Account)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no account of this fuzz ({error}): remove it") from error
