"""What a fresh run has to know of the run that it forgets: which attempts its files alone show.

The dispatch log drops rollouts that are finished, because their output lines say it. Before those lines go,
the log gets their attempts back: attempts of a directory only rise, whoever begins there.
"""

import contextlib
from pathlib import Path

import msgspec

from triocollect.checkpoint.dispatch_log import read_dispatched, start_dispatched
from triocollect.collector.earlier import Files
from triocollect.errors import DamageError
from triocollect.records.output import OutputScan, scan_output
from triocollect.records.sidecar import SidecarScan, scan_sidecar
from triocollect.rows.materialize import read_rows
from triocollect.rows.types import Row


def keep_attempts(log: Path, files: Files) -> dict[str, int]:
    """Write into the log what output and sidecar show; the highest attempt of each rollout that was answered.

    Where there is no log, or none that can be trusted, nothing is written. Raises StorageError.
    """
    output, sidecar = scan_output(files.output), scan_sidecar(files.failures)
    sent = read_dispatched(log)
    used, answered = dict(sent.attempts), dict[str, int]()
    if sent.header is None or not (len(output.done) or output.attempts or sidecar.tried):
        return answered
    with contextlib.suppress(DamageError):  # of a file that this run writes anew
        for row in read_rows(files.materialized):
            last, said = _last_of(row, output, sidecar)
            if last is not None:
                used[row.rollout_id] = max(last, used.get(row.rollout_id, 0))
            if said is not None:
                answered[row.rollout_id] = said
    header = msgspec.structs.replace(sent.header, floor=sent.floor)
    start_dispatched(log, header, used).close()
    return answered


def _last_of(row: Row, output: OutputScan, sidecar: SidecarScan) -> tuple[int | None, int | None]:
    """The highest attempt that was used, and the highest that brought an answer; None for none."""
    used, answered = [], []
    if row.key in output.done or row.key in output.attempts:
        answered.append(output.attempts.get(row.key, 0))
    if (tried := sidecar.tried.get(row.key)) is not None:
        used.append(tried.attempt)
        if tried.replied is not None:
            answered.append(tried.replied)
    return max([*used, *answered], default=None), max(answered, default=None)
