"""What of an earlier run's work this one goes on with, for its report."""

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UnsetType

from triocollect.checkpoint.directory import read_outcomes
from triocollect.checkpoint.plan import Plan
from triocollect.checkpoint.whole import Whole
from triocollect.errors import StorageError
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.protocol.values import NOT_JSON
from triocollect.records.lines import Lines
from triocollect.report.run_report import Continued


class _Calls(msgspec.Struct, frozen=True):
    rows: tuple[msgspec.Raw, ...]


class _ModelRecord(msgspec.Struct, frozen=True):
    rollout_id: str
    state: _Calls


_decode: Final = msgspec.json.Decoder(_ModelRecord).decode


def continued_of(
    root: Path, checkpoint_id: str | None, planned: Plan, restored: int, calls_saved: int | None = None
) -> Continued | None:
    """From the plan of a restart and how many rows it restored; None where no row had been under way.

    The checkpoint's own outcome speaks of all its rows: where some have ended since, it tells nothing.
    """
    under_way = (planned.to_retire.keys() - planned.of_others) | planned.continued.keys()
    if not under_way:
        return None
    told = Continued(rows=restored, anew=len(under_way) - restored, calls_saved=calls_saved)
    outcome = None if checkpoint_id is None else _outcome(root, checkpoint_id)
    if outcome is None:
        return told
    if outcome.restarted == told.anew and not isinstance(outcome.lost_s, UnsetType):
        told = msgspec.structs.replace(told, lost_s=outcome.lost_s)
    if outcome.continued != restored:
        return told
    return msgspec.structs.replace(
        told,
        work_s=outcome.work_s,
        calls_again=_told(outcome.undelivered),
        calls_cut=_told(outcome.cut),
        tokens_kept=_told(outcome.kept_tokens),
    )


def _told(count: int | UnsetType) -> int | None:
    return None if isinstance(count, UnsetType) else count


def refused_since(told: Continued | None, refused: int) -> Continued | None:
    """What is left of it where servers had `refused` so many of the restored rows, which then began anew."""
    if told is None or not refused:
        return told
    return Continued(rows=max(0, told.rows - refused), anew=told.anew + refused)


def calls_saved(whole: Whole, rollouts: Collection[str]) -> int | None:
    """Answered policy calls that a checkpoint keeps of these, by its model servers' records.

    None where no model server's records tell: one of somebody else's may keep them in another way.
    """
    found = None
    for ref in whole.collection.participants:
        if ref.kind != "model":
            continue
        for path in (whole.folder / ref.manifest).parent.glob("records-*.jsonl"):
            try:
                for line in Lines(path):
                    record = _decode(b"" if line.data is None else line.data)
                    found = (found or 0) + len(record.state.rows) * (record.rollout_id in rollouts)
            except (StorageError, *NOT_JSON):
                return None
    return found


def _outcome(root: Path, checkpoint_id: str) -> CheckpointOutcome | None:
    with contextlib.suppress(StorageError):  # it is only told
        outcomes, _ = read_outcomes(root)
        return next((one for one in outcomes if one.checkpoint_id == checkpoint_id and one.published), None)
    return None
