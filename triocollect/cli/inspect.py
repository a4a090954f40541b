"""`triocollect inspect`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.where import CHECKPOINT_DIR, JSON, OUTPUT, PATH, places_at
from triocollect.errors import Exit, UsageError
from triocollect.reading.inspection import Inspected, fault_of_latest, inspect_all, inspect_one
from triocollect.reading.places import Place, no_directory
from triocollect.reading.rollout import Rollout, look_for, named_here
from triocollect.report.machine import as_json

ABOUT = """The checkpoints in order, each with its number, age and size, the servers that took part, how many
records each wrote, and how many rows it continues and leaves out. With --checkpoint also which rows, and why;
with --rollout where one rollout stands in every file: its attempts, its boundary, its records. Positions and
sizes are told, never what a record says, but for the first words of a failure. Records are not read as a
whole: verify does that."""
EPILOGUE = """Examples:
  triocollect inspect results/
  triocollect inspect checkpoints/ --checkpoint 12
  triocollect inspect results/ --rollout 17-0 --json

Exit codes:
  0  told
  1  internal error
  2  there is nothing to look at, or no such checkpoint or rollout
  4  told, and a checkpoint is damaged: it is named"""

app = command("inspect", "PATH [FLAGS]", ABOUT, EPILOGUE)


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at in one place: its checkpoints, or one of them, or one rollout."""

    output: str | None
    directory: str | None
    checkpoints: tuple[Inspected, ...] = ()
    rollout: Rollout | None = None
    fault: str | None = None  # what is wrong with LATEST

    @property
    def damaged(self) -> bool:
        """Whether something there is not as it was written."""
        faults = () if self.rollout is None else self.rollout.faults
        return bool(faults) or self.fault is not None or any(one.damaged for one in self.checkpoints)

    def lines(self, now: datetime) -> Iterator[str]:
        """For people."""
        if self.rollout is not None:
            yield from self.rollout.text()
            return
        yield str(self.directory)
        if self.fault is not None:
            yield f"  damaged: {self.fault}"
        if not self.checkpoints:
            yield "  no checkpoint"
        for one in self.checkpoints:
            yield from one.lines(now)


@app.default
def inspect(  # noqa: PLR0913  # a flag each
    path: Annotated[str, PATH],
    /,
    *more: Annotated[str, Parameter(show=False)],
    checkpoint: Annotated[
        str | None, Parameter(help="Only this one, by id, folder or number.", metavar="ID")
    ] = None,
    rollout: Annotated[str | None, Parameter(help="What is known of one rollout.", metavar="ID")] = None,
    checkpoint_dir: Annotated[str | None, CHECKPOINT_DIR] = None,
    output: Annotated[str | None, OUTPUT] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Look, and tell."""
    if more:
        raise UsageError(
            f"{more[0]!r} is one word too many: a rollout is named by --rollout ID, "
            "a checkpoint by --checkpoint ID"
        )
    if checkpoint is not None and rollout is not None:
        raise UsageError("--checkpoint and --rollout: give one of them")
    found = places_at(Path(path), output=output, checkpoint_dir=checkpoint_dir)
    if rollout is None:
        told = [_checkpoints(place, root, checkpoint) for place, root in _with_checkpoints(found)]
    else:
        told = [each for place in found if (each := _rollout(place, rollout)) is not None]
        if not told:
            known = next(filter(None, map(named_here, found)), "")
            raise UsageError(f"--rollout {rollout}: no file here knows a rollout of that name{known}")
    if json:
        say.out(as_json({"runs": told}).decode())
    else:
        say.out("\n\n".join("\n".join(one.lines(datetime.now(UTC))) for one in told))
    return Exit.REFUSED if any(one.damaged for one in told) else Exit.OK


def _with_checkpoints(found: Sequence[Place]) -> list[tuple[Place, Path]]:
    """Others of the same folder may have run without. Raises UsageError where all did."""
    kept = [(place, place.directory) for place in found if place.directory is not None]
    if found and not kept:
        raise UsageError(no_directory(found[0].output))
    return kept


def _checkpoints(place: Place, root: Path, one: str | None) -> Inspection:
    found = inspect_all(root) if one is None else (inspect_one(root, one),)
    return msgspec.structs.replace(_at(place), checkpoints=found, fault=fault_of_latest(root))


def _rollout(place: Place, rollout: str) -> Inspection | None:
    found = look_for(rollout, place)
    return None if found is None else msgspec.structs.replace(_at(place), rollout=found)


def _at(place: Place) -> Inspection:
    return Inspection(
        output=None if place.output is None else str(place.output),
        directory=None if place.directory is None else str(place.directory),
    )
