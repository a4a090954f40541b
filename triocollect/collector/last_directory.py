"""Whether a run goes on with the checkpoint directory that its output was collected with the last time.

What was in flight then is in that directory and in no other: to leave it out by an oversight is to lose it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from msgspec import UNSET

from triocollect.checkpoint.directory import read_lock
from triocollect.checkpoint.ladder import find_checkpoint
from triocollect.collector.earlier import Files
from triocollect.collector.prospect import planned_of
from triocollect.errors import DamageError, DriftError, StorageError
from triocollect.protocol.files import RunFile
from triocollect.report.wording import rows


@frozen
class Owned:
    """Whether the checkpoints of the run's directory are of its output; `told`: what the user should know."""

    ours: bool
    told: str | None = None


def owned(earlier: RunFile | None, files: Files, used: str | None, *, accepted: bool) -> Owned:
    """Judge the directory of the id `used`; None: the run has none, or one that is new.

    A run file that is gone or damaged (`earlier` is None) proves nothing. Raises DriftError where the
    directory before holds rows in flight, and it is not `accepted` that they start from their input.
    """
    if earlier is None or earlier.checkpoints == (UNSET if used is None else used):
        return Owned(ours=True)
    if earlier.checkpoints is UNSET:
        return Owned(ours=False)
    before = None if earlier.checkpoint_dir is UNSET else Path(earlier.checkpoint_dir)
    if before is not None and id_of(before) != earlier.checkpoints:
        before = next((one for one in _beside(files.output) if id_of(one) == earlier.checkpoints), before)
    if before is None or id_of(before) != earlier.checkpoints:
        was = "another checkpoint directory" if before is None else f"the checkpoint directory {before}"
        gone = "" if before is None else ", which is not there any more"
        return Owned(
            ours=False,
            told=f"this output was collected with {was} the last time{gone}; what was in flight is not "
            "continued from there, it starts from its input",
        )
    if not (lost := _in_flight(files, earlier, before)):
        return Owned(ours=False)
    flying = f"{rows(lost)} in flight"
    if accepted:
        return Owned(ours=False, told=f"{flying} in {before} start from their input, as was accepted")
    raise DriftError(
        f"this output was collected with --checkpoint-dir {before} the last time, which holds {flying}: give "
        "it again to continue them, or --accept-drift checkpoint_dir to go on without it and start them from "
        "their input",
        fields=("checkpoint_dir",),
    )


def id_of(root: Path) -> str | None:
    """The id of a checkpoint directory; None where its lock file does not tell."""
    with suppress(DamageError, StorageError, ValueError):  # a damaged run file may name what no path can be
        return None if (lock := read_lock(root)) is None else lock.run
    return None


def _beside(output: Path) -> Iterator[Path]:
    """Where it is if the run's whole folder has another name now."""
    with suppress(OSError):
        yield from sorted(output.parent.glob("*/"))


def _in_flight(files: Files, earlier: RunFile, root: Path) -> int:
    """How many rows a run with that directory would continue; all of its checkpoint's where rows are lost."""
    rung = find_checkpoint(root, output=earlier.run, hash_records=False)
    if rung.checkpoint is None:
        return 0
    try:
        return len(planned_of(files.output, root, rung, earlier.run).continued)
    except (DamageError, StorageError):
        return len(rung.checkpoint.collection.continued)
