"""What a restart would continue, from the files that a run left, by the rules that it goes by itself."""

import os
from pathlib import Path

from triocollect.checkpoint.ladder import Rung
from triocollect.checkpoint.plan import Plan, plan
from triocollect.collector.inherited import inherited
from triocollect.collector.resume import Survey, max_rollout_attempts
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import failures_path, materialized_path


def planned_of(output: Path, root: Path, rung: Rung, run: str | None) -> Plan:
    """The plan of a restart from `rung` of the directory `root`; `run` is that of the output, if it is known.

    Reads output, sidecar, materialised rows and dispatch log. Raises DamageError, StorageError.
    """
    attempts, _ = max_rollout_attempts(os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"))
    survey = Survey(scan_output(output), scan_sidecar(failures_path(output)), attempts)
    history = inherited(root, rung, run, read_rows(materialized_path(output)), survey).history
    continued = () if rung.checkpoint is None else rung.checkpoint.collection.continued
    return plan(continued, history.tried, floor=history.floor, start=history.start)
