"""What the same command would do with the rows that were under way, by the rules that it goes by itself."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from triocollect.checkpoint.ladder import Rung, find_checkpoint
from triocollect.checkpoint.plan import Plan, plan
from triocollect.collector.earlier import read_run_file
from triocollect.collector.history import History
from triocollect.collector.inherited import inherited
from triocollect.collector.resume import Survey, max_rollout_attempts
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import failures_path, materialized_path, run_path


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
    `passed_over`: damaged ones above it, and why. Not `known`: the rows cannot be told, for the output was
    not found, or for its `faults`.
    """

    known: bool = True

    checkpoint_id: str | None = None
    folder: str | None = None
    passed_over: tuple[str, ...] = ()
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
        history = _history(output, root, rung, run)
    except (DamageError, StorageError) as error:
        return msgspec.structs.replace(_told(rung, (), ()), known=False, faults=(str(error),))
    continued = () if rung.checkpoint is None else rung.checkpoint.collection.continued
    planned = plan(continued, history.tried, floor=history.floor)
    otherwise = "there is no checkpoint" if rung.checkpoint is None else "it was sent after that checkpoint"
    return _told(rung, *_rows(planned, _reasons(rung, planned), otherwise))


def _history(output: Path, root: Path, rung: Rung, run: str | None) -> History:
    rows = materialized_path(output)
    attempts, _ = max_rollout_attempts(os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"))
    survey = Survey(scan_output(output), scan_sidecar(failures_path(output)), attempts)
    return inherited(root, rung, run, read_rows(rows), survey).history


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
        key: one for key, one in planned.to_retire.items() if key not in planned.continued
    }
    return continues, tuple(
        Restarts(one.rollout_id, one.attempt, reasons.get(one.rollout_id, otherwise)) for one in anew.values()
    )


def _told(rung: Rung, continues: tuple[Continues, ...], restarts: tuple[Restarts, ...]) -> Restart:
    whole = rung.checkpoint
    return Restart(
        checkpoint_id=None if whole is None else whole.collection.checkpoint_id,
        folder=None if whole is None else whole.folder.name,
        passed_over=tuple(str(skipped) for skipped in rung.skipped),
        continues=continues,
        restarts=restarts,
    )
