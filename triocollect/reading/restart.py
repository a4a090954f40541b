"""What the same command would do with the rows that were under way, by the rules that it goes by itself."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from triocollect.checkpoint.ladder import Rung, find_checkpoint
from triocollect.checkpoint.plan import Plan
from triocollect.collector.earlier import read_run_file
from triocollect.collector.prospect import planned_of
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.names import run_path


class Continues(msgspec.Struct, frozen=True):
    """A row that goes on from its boundary: the attempt that was cut, and the one it goes on as."""

    rollout_id: str
    attempt: int
    becomes: int


class Restarts(msgspec.Struct, frozen=True):
    """A row that was sent, brought no answer, and would start from its input; why."""

    rollout_id: str
    attempt: int
    why: str


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart would do. Together the rows are those in flight when it was last written down.

    `checkpoint_id`: what it would continue from, `folder` its place; None where there is none that is whole.
    `passed_over`: damaged ones above it, and why; `of_others`: those above it that hold rows of outputs that
    share the directory. Not `known`: the rows cannot be told, for the output was
    not found, or for its `faults`.
    """

    known: bool = True

    checkpoint_id: str | None = None
    folder: str | None = None
    passed_over: tuple[str, ...] = ()
    of_others: tuple[str, ...] = ()
    continues: tuple[Continues, ...] = ()
    restarts: tuple[Restarts, ...] = ()
    faults: tuple[str, ...] = ()


def restart_of(output: Path | None, root: Path, *, owns: bool) -> Restart:
    """Look, without reading the bytes of records. `owns`: the checkpoints are of this output.

    Raises nothing: what is damaged is among the faults.
    """
    run_file = None if output is None else read_run_file(run_path(output))[0]
    run = None if run_file is None else run_file.run
    rung = find_checkpoint(root, output=run, hash_records=False) if owns else Rung(None)
    if output is None:
        return msgspec.structs.replace(_told(rung, (), ()), known=False)
    try:
        planned = planned_of(output, root, rung, run)
    except (DamageError, StorageError) as error:
        return msgspec.structs.replace(_told(rung, (), ()), known=False, faults=(str(error),))
    later = "it was sent after that checkpoint, or refused by it"
    otherwise = "there is no checkpoint" if rung.checkpoint is None else later
    return _told(rung, *_rows(planned, _reasons(rung, planned), otherwise))


def _reasons(rung: Rung, planned: Plan) -> Mapping[str, str]:
    """Why rows start from their input, as far as a checkpoint says so."""
    if rung.checkpoint is None:
        return {}
    restarted = {one.rollout_id: one.reason for one in rung.checkpoint.collection.restarted}
    return {**restarted, **{episode.rollout_id: why for episode, why in planned.left_out.items()}}


def _rows(
    planned: Plan, reasons: Mapping[str, str], otherwise: str
) -> tuple[tuple[Continues, ...], tuple[Restarts, ...]]:
    continues = tuple(
        Continues(one.rollout_id, one.attempt, one.becomes) for one in planned.continued.values()
    )
    anew: dict[RowKey, EpisodeId] = {
        key: one
        for key, one in planned.to_retire.items()
        if key not in planned.continued and key not in planned.of_others
    }
    return continues, tuple(
        Restarts(one.rollout_id, one.attempt, reasons.get(one.rollout_id, otherwise)) for one in anew.values()
    )


def _told(rung: Rung, continues: tuple[Continues, ...], restarts: tuple[Restarts, ...]) -> Restart:
    whole = rung.checkpoint
    return Restart(
        checkpoint_id=None if whole is None else whole.collection.checkpoint_id,
        folder=None if whole is None else whole.folder.name,
        passed_over=tuple(str(skipped) for skipped in rung.skipped if not skipped.of_another),
        of_others=tuple(skipped.name for skipped in rung.skipped if skipped.of_another),
        continues=continues,
        restarts=restarts,
    )
