"""`triocollect verify`."""

import contextlib
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from triocollect.checkpoint.directory import LOCK, read_outcomes
from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.names import LATEST, checkpoint_folders, folder_name
from triocollect.checkpoint.whole import read_whole
from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.errors import DamageError, Exit, StorageError, UsageError
from triocollect.report.outputs import find_outputs
from triocollect.report.verify import Checkpoint, Verified
from triocollect.report.verify import verify as look

ABOUT = """Reads what a run left and recomputes what must hold: every row has one result at most, the rows are
those that the run began with, every byte of the newest checkpoint is what was written, and, where the servers
wrote down what was done to them (TRIOCOLLECT_EFFECTS_DIR), every result came about in one line although its
rollout was cut and continued. Changes nothing and asks no server.

PATH is a run's folder, its output, or a checkpoint directory. What lies in the folder is found: outputs, a
checkpoint directory, and effects in the folder 'effects'; name them where they lie elsewhere."""
EPILOGUE = """Examples:
  triocollect demo --keep demo && triocollect verify demo
  triocollect verify out.jsonl --checkpoint-dir /scratch/checkpoints
  triocollect verify results/ --json

Exit codes:
  0  everything adds up
  1  internal error
  2  there is nothing to look at
  4  something does not add up: it is named"""
EFFECTS: Final = "effects"

app = command("verify", "PATH [--checkpoint-dir DIR] [--effects DIR] [--json]", ABOUT, EPILOGUE)


@app.default
def verify(
    path: Annotated[str, Parameter(help="A run's folder or output, or a checkpoint directory.")],
    /,
    *,
    checkpoint_dir: Annotated[str | None, Parameter(help="The run's checkpoints.", metavar="DIR")] = None,
    effects: Annotated[str | None, Parameter(help="What its servers wrote down.", metavar="DIR")] = None,
    json: Annotated[
        bool, Parameter(help="One JSON object on stdout.", negative="", show_default=False)
    ] = False,
) -> int:
    """Look, recompute, and tell."""
    found = verify_run(
        Path(path),
        None if checkpoint_dir is None else Path(checkpoint_dir),
        None if effects is None else Path(effects),
    )
    say.out(found.as_json().decode() if json else found.text())
    return Exit.OK if found.holds else Exit.REFUSED


def verify_run(path: Path, checkpoint_dir: Path | None = None, effects: Path | None = None) -> Verified:
    """Everything that is found at `path`. Raises UsageError, DamageError, StorageError."""
    folder = path if path.is_dir() else path.parent
    if checkpoint_dir is not None and not _is_directory(checkpoint_dir):
        raise UsageError(f"--checkpoint-dir {checkpoint_dir}: is no checkpoint directory")
    roots = [checkpoint_dir] if checkpoint_dir is not None else _directories(folder)
    outputs = list[Path]()
    with contextlib.suppress(UsageError) if roots else contextlib.nullcontext():
        outputs = find_outputs([path])
    if effects is None and (folder / EFFECTS).is_dir() and len(outputs) == 1:
        effects = folder / EFFECTS
    if effects is not None and len(outputs) != 1:
        raise UsageError(f"--effects {effects}: name the one output that they belong to")
    return look(outputs, [examine(root) for root in roots], effects)


def examine(root: Path) -> Checkpoint:
    """What LATEST leads to, every byte of it, and what else is kept. Raises StorageError."""
    others = checkpoint_folders(root)
    try:
        latest = read_latest(root)
        if latest is None:
            return Checkpoint(directory=str(root))
        others.pop(latest.sequence, None)
        whole = read_whole(root / folder_name(latest.sequence), named=latest)
    except (DamageError, StorageError) as damage:
        return Checkpoint(directory=str(root), faults=(f"{root}: {damage}",))
    outcomes, _ = read_outcomes(root)
    seconds = {outcome.checkpoint_id: outcome.work_s for outcome in outcomes if outcome.published}
    also, passed_over = _others(list(others.values()))
    return Checkpoint(
        directory=str(root),
        checkpoint_id=whole.collection.checkpoint_id,
        continued=tuple(episode.rollout_id for episode in whole.collection.continued),
        restarted=len(whole.collection.restarted),
        bytes=whole.bytes,
        work_s=seconds.get(whole.collection.checkpoint_id),
        also=also,
        passed_over=passed_over,
    )


def _others(folders: list[Path]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of whole ones; what is wrong with the others, which a death may have left."""
    also, passed_over = [], []
    for folder in folders:
        try:
            also.append(read_whole(folder).folder.name)
        except DamageError as damage:
            passed_over.append(str(damage))
    return tuple(also), tuple(passed_over)


def _directories(folder: Path) -> list[Path]:
    """The folder itself where it is a checkpoint directory, else those in it."""
    if _is_directory(folder):
        return [folder]
    return [one for one in sorted(folder.iterdir()) if _is_directory(one)] if folder.is_dir() else []


def _is_directory(folder: Path) -> bool:
    return folder.is_dir() and ((folder / LATEST).exists() or (folder / LOCK).exists())
