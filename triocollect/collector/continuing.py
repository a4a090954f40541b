"""What of an earlier run's work this one goes on with, for its report."""

import contextlib
from pathlib import Path

from msgspec import UnsetType

from triocollect.checkpoint.directory import read_outcomes
from triocollect.checkpoint.plan import Plan
from triocollect.errors import StorageError
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.report.run_report import Continued


def continued_of(root: Path, checkpoint_id: str | None, planned: Plan, restored: int) -> Continued | None:
    """From the plan of a restart and how many rows it restored; None where no row had been under way.

    The checkpoint's own outcome speaks of all its rows: where some have ended since, it tells nothing.
    """
    under_way = planned.to_retire.keys() | planned.continued.keys()
    if not under_way:
        return None
    anew = len(under_way) - restored
    outcome = None if checkpoint_id is None else _outcome(root, checkpoint_id)
    if outcome is None or outcome.continued != restored:
        return Continued(rows=restored, anew=anew)
    again = None if isinstance(outcome.undelivered, UnsetType) else outcome.undelivered
    return Continued(rows=restored, anew=anew, work_s=outcome.work_s, calls_again=again)


def _outcome(root: Path, checkpoint_id: str) -> CheckpointOutcome | None:
    with contextlib.suppress(StorageError):  # it is only told
        outcomes, _ = read_outcomes(root)
        return next((one for one in outcomes if one.checkpoint_id == checkpoint_id and one.published), None)
    return None
