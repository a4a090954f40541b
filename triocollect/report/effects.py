"""What stateful environments wrote down of what was done to them, and whether it is one unbroken line.

An effects file has a line per effect, by every attempt of every rollout. Of a rollout that was cut and went
on those of its last attempt begin where those of an earlier attempt stop counting.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from triocollect.errors import UsageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings
from triocollect.records.lines import Lines


class Effect(NamedTuple):
    """One effect. `number` counts those of a session from its seed, 0; None: its state has no count."""

    attempt: int
    number: int | None
    seed: int | None


class Line(NamedTuple):
    """The effects that made a rollout what it is, from the seed to the last.

    `went_on`: the seed is that of an attempt before the last one; `carried`: so many effects are too. `lost`:
    done by any attempt and no part of this line: a later attempt did them again, or differently. `fault`: why
    they are no unbroken line.
    """

    effects: int
    went_on: bool
    carried: int
    lost: int
    fault: str | None = None


class Effects:
    """What lies in one folder of effects files. `sessions`: by rollout id, in the order of writing."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError where there is no such folder, StorageError where a file cannot be read."""
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder of effects files")
        self.folder: Final = folder
        self.sessions: Final[dict[str, list[Effect]]] = defaultdict(list)
        self.damaged: Final[list[str]] = []
        for path in sorted(folder.glob("*.jsonl")):
            if path.name != CALLS:
                self._read(path)

    def line(self, episode: EpisodeId, last: int | None) -> Line | None:
        """That of a rollout that ended at this attempt, with so many effects where its result says so.

        None where there is nothing to judge by.
        """
        effects = self.sessions.get(episode.rollout_id, ())
        if not effects or any(effect.number is None for effect in effects):
            return None
        return line_of(effects, episode.attempt, last)

    def _read(self, path: Path) -> None:
        damaged = Findings(path)
        for line in Lines(path):
            try:
                if line.data is None:
                    damaged.add(line, "no line of an effects file")
                    continue
                written = _decode(line.data)
            except NOT_JSON as error:
                damaged.add(line, f"no line of an effects file: {error}")
            else:
                if written.state is None:  # a verifier's session, that nothing is ever done to
                    continue
                number = 0 if written.effect == "seed" else written.state.effects
                effect = Effect(written.attempt, number, written.state.seed)
                self.sessions[written.rollout_id].append(effect)
        self.damaged.extend(damaged.words())


CALLS: Final = "inference.jsonl"  # lies there too: what the scripted worker was asked


def line_of(effects: Sequence[Effect], attempt: int, last: int | None) -> Line:
    """Follow the effects of a rollout from its last attempt down to the seed."""
    taken = list(_down(effects, attempt, last))
    numbers = [effect.number or 0 for effect in reversed(taken)]
    done = sum(1 for number in numbers if number)
    return Line(
        effects=done,
        went_on=bool(taken) and taken[-1].attempt < attempt,
        carried=sum(1 for effect in taken if effect.number and effect.attempt < attempt),
        lost=sum(1 for effect in effects if effect.number) - done,
        fault=_fault(numbers, last, max(effect.attempt for effect in effects) - attempt),
    )


def _down(effects: Sequence[Effect], attempt: int, last: int | None) -> Iterator[Effect]:
    """The last first. An attempt that went on counts from where the one before it was cut."""
    upper, seed = None if last is None else last + 1, None
    for one in range(attempt, -1, -1):
        own = [
            effect
            for effect in effects
            if effect.attempt == one
            and (one == attempt or upper is None or (effect.number or 0) < upper)
            and (seed is None or effect.seed == seed)
        ]
        yield from reversed(own)
        if own:
            upper, seed = own[0].number, own[0].seed
        if upper == 0:
            return


def _fault(numbers: Sequence[int], last: int | None, beyond: int) -> str | None:
    if beyond > 0:
        return "a later attempt than the one of the result did something too"
    if len(set(numbers)) < len(numbers):
        return f"effects were done twice: {', '.join(map(str, numbers))}"
    end = max(numbers, default=0) if last is None else last
    if missing := sorted(set(range(end + 1)).difference(numbers)):
        return "its beginning is missing" if missing[0] == 0 else f"effect {missing[0]} of {end} is missing"
    return None if numbers == list(range(end + 1)) else f"there are more effects than the result's {end}"


class _State(msgspec.Struct, frozen=True):
    seed: int | None = None
    effects: int | None = None


class _Written(msgspec.Struct, frozen=True):
    rollout_id: str
    attempt: int
    effect: str
    state: _State | None


_decode: Final = msgspec.json.Decoder(_Written).decode
