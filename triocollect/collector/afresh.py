"""What a fresh run has to know of the run that it forgets: which attempts its files alone show.

The dispatch log drops rollouts that are finished, because their output lines say it. Before those lines go,
the log gets their attempts back: attempts of a directory only rise, whoever begins there.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from attrs import define, field

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.ladder import episodes_named
from triocollect.checkpoint.sent import read_dispatched
from triocollect.collector.earlier import Files
from triocollect.errors import DamageError
from triocollect.protocol.manifests import DispatchHeader
from triocollect.records.output import OutputScan, scan_output
from triocollect.records.sidecar import SidecarScan, scan_sidecar
from triocollect.rows.materialize import read_rows
from triocollect.rows.types import Row


def keep_attempts(root: Path, files: Files, first: DispatchHeader, before: str | None = None) -> None:
    """Write into the log what output and sidecar show of each rollout, and that what they answer has ended.

    What cannot be told row by row, for rows or lines are lost, is below the floor from now on. Where there is
    no log no run has sent anything for this directory. `first`: the header where there is none that can be
    read; of another its run and output count. `before`: the run that is forgotten, None: the output is new to
    the directory. Raises StorageError.
    """
    log = root / DISPATCHED
    if not os.path.lexists(log):
        return
    output = before or first.output or ""
    sent = read_dispatched(log).beside(output)
    shown = _Shown(scan_output(files.output), scan_sidecar(files.failures))
    with contextlib.suppress(DamageError):  # of a file that this run writes anew
        shown.look(read_rows(files.materialized))
    header, floor = first if sent.header is None else sent.header, sent.floor
    used, answered = dict(sent.attempts), {**sent.answered, **shown.answered}
    for rollout_id, attempt in shown.used.items():
        used[rollout_id] = max(attempt, used.get(rollout_id, 0))
    if not sent.complete or not shown.is_all:
        in_checkpoints = (episode.attempt for episode in episodes_named(root))
        highest = max([0, header.reserved, *in_checkpoints, *used.values(), *shown.attempts()])
        floor = max(floor, highest + 1)
    header = msgspec.structs.replace(
        header, run=first.run, output=first.output, floor=floor, start=sent.start
    )
    start_dispatched(log, header, used, answered, sent.of_others(output)).close()


@define
class _Shown:
    """`used`: the highest attempt of each rollout of which a file tells, `answered`: that was answered."""

    output: OutputScan
    sidecar: SidecarScan
    used: dict[str, int] = field(factory=dict)
    answered: dict[str, int] = field(factory=dict)
    _seen: int = 0

    def look(self, rows: Iterable[Row]) -> None:
        """The files name rows by index; these say which rollout each is."""
        for row in rows:
            done, tried = row.key in self.output.done, self.sidecar.tried.get(row.key)
            answered = [self.output.attempts.get(row.key, 0)] if self._is_written(row) else []
            if tried is not None and tried.replied is not None:
                answered.append(tried.replied)
            used = answered if tried is None else [*answered, tried.attempt]
            if used:
                self.used[row.rollout_id] = max(used)
            if answered:
                self.answered[row.rollout_id] = max(answered)
            self._seen += done + (row.key in self.output.attempts) + (tried is not None)

    @property
    def is_all(self) -> bool:
        """Whether every row that a file tells of was among them."""
        return self._seen == len(self.output.done) + len(self.output.attempts) + len(self.sidecar.tried)

    def attempts(self) -> Iterable[int]:
        """All that the files tell, of whatever row."""
        yield from self.output.attempts.values()
        for tried in self.sidecar.tried.values():
            yield tried.attempt

    def _is_written(self, row: Row) -> bool:
        return row.key in self.output.done or row.key in self.output.attempts
