"""Everything between the lock and the first row: decide, draft, check; only then change what is there.

A refusal leaves every file as it was. A kill at any point leaves a folder from which the same command works.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from attrs import evolve, frozen

from triocollect.checkpoint.store import Store
from triocollect.collector.afresh import keep_attempts
from triocollect.collector.agreement import first_run_file, sha256_of
from triocollect.collector.drafting import digests_of, draft_of, go_on, source_of
from triocollect.collector.earlier import Files, continues, forget, read_run_file
from triocollect.collector.identity import values_of
from triocollect.collector.last_directory import owned
from triocollect.collector.resume import Survey, max_rollout_attempts
from triocollect.collector.sinks import ACK_VARIABLE, Sinks
from triocollect.collector.whereto import is_embedded
from triocollect.collector.whose import known_as, run_of, traces
from triocollect.config.settings import Config
from triocollect.durable import AppendFile, Draft, remove, replace
from triocollect.errors import UsageError
from triocollect.events import Listener, Note
from triocollect.gym.routing import Routing
from triocollect.metrics import RewardMean
from triocollect.protocol.encoding import encode_file
from triocollect.protocol.files import RunFile
from triocollect.protocol.manifests import DispatchHeader
from triocollect.records.output import OutputScan, scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.records.tail import mend_tail
from triocollect.rows.materialize import Materialized, read_rows
from triocollect.rows.types import Row

REWARD_CLUSTERS: Final = 1024  # the interval is exact up to so many tasks, and memory is bounded
_UNKNOWN_NAMED: Final = 10


@frozen
class Outset:
    """A run that may begin: its rows are materialised, its files are whole and open."""

    files: Files
    run_file: RunFile
    rows: Materialized
    resumed: bool
    survey: Survey
    sinks: Sinks
    rewards: RewardMean  # of the results so far
    damaged: int  # lines of earlier runs that do not count
    owns_checkpoints: bool = True  # the directory is the one that this output used last

    def forget_metrics(self) -> None:
        """Take the aggregate file of an earlier run away."""
        if self.files.aggregate.exists():
            remove(self.files.aggregate)

    def record_directory(self) -> None:
        """Note which checkpoint directory rows are sent with, if any are. Raises StorageError."""
        if self.survey.to_send and read_run_file(self.files.run)[0] != self.run_file:
            replace(self.files.run, encode_file(self.run_file))

    def read_rows(self) -> Iterator[Row]:
        """All rows of the data set, in order."""
        return read_rows(self.files.materialized)


@frozen
class _Start:
    """What the steps of setting out share. `resumed`: an earlier run is continued."""

    config: Config
    output: AppendFile
    files: Files
    resumed: bool
    tell: Listener

    def warn(self, text: str) -> None:
        self.tell(Note(text, "warning"))


@frozen
class OwnStore:
    """Where a run's checkpoints are, and the random id of that directory."""

    store: Store
    run: str


def set_out(
    config: Config, output: AppendFile, routing: Routing | None, tell: Listener, own: OwnStore | None = None
) -> Outset | None:
    """Get everything ready; None where the input has no rows, and then nothing is written.

    `own`: the run's checkpoints, which a fresh run forgets before anything else.
    `routing` is None where the caller dispatches itself. Raises UsageError and RefusedError before anything
    is changed, StorageError at any point.
    """
    files, ack_fd = Files(output.path), _ack_fd()
    found = [] if own is None else traces(files, own.store.root)
    start = _Start(config, output, files, continues(config.output, files, found), tell)
    draft, rows = draft_of(config, routing, files.materialized)
    try:
        for note in rows.notes:
            tell(Note(note))
        if not rows.rows:
            draft.discard()
            return None
        if routing is not None:
            routing.check(rows.routes)
        run_file, earlier = _run_file(start, own, draft, rows)
        owns_checkpoints = _owns_checkpoints(start, own, earlier)
        _put(draft, rows, files.materialized)
        replace(files.run, encode_file(_last_used(run_file, earlier)))
    except BaseException:
        draft.discard()
        raise
    failures = AppendFile(files.failures)
    try:
        run_file = _using(run_file, own, own_servers=routing is not None and is_embedded(config))
        outset = _stand(start, run_file, rows, Sinks(output, failures, ack_fd=ack_fd))
        return evolve(outset, owns_checkpoints=owns_checkpoints)
    except BaseException:
        failures.close()
        raise


def _run_file(
    start: _Start, own: OwnStore | None, draft: Draft, rows: Materialized
) -> tuple[RunFile, RunFile | None]:
    """Which run this is, and the run file that is there of the one it continues, if any can be read.

    A fresh run forgets the one before it here. Raises UsageError, RefusedError, StorageError.
    """
    config, files = start.config, start.files
    if start.resumed:
        run_file, earlier = go_on(config, files, draft, rows, start.warn), read_run_file(files.run)[0]
    else:
        run_file, earlier = first_run_file(rows, digests_of(config, rows)), None
        _begin_afresh(start, own, run_file)
    if start.resumed and earlier is None and own is not None:
        run = known_as(files, own.store.root) or run_file.run
        run_file = msgspec.structs.replace(run_file, run=run)
    return msgspec.structs.replace(run_file, values=values_of(config, source_of(config))), earlier


def _owns_checkpoints(start: _Start, own: OwnStore | None, earlier: RunFile | None) -> bool:
    """Whether the checkpoint directory is the one that this output used last; warns where it is another."""
    directory = owned(
        earlier,
        start.files,
        None if own is None else own.run,
        accepted="checkpoint_dir" in start.config.output.accept_drift,
    )
    if directory.told is not None:
        start.warn(directory.told)
    return directory.ours


def _begin_afresh(start: _Start, own: OwnStore | None, begun: RunFile) -> None:
    """Forget the earlier run, and its checkpoints before anything else; see `keep_attempts`."""
    if own is not None:
        before = run_of(start.files, own.store.root)
        first = DispatchHeader(own.run, epoch=0, sequence=0, reserved=0, output=begun.run)
        keep_attempts(own.store.root, start.files, first, before)
        for trouble in own.store.forget(before):
            start.warn(trouble)
    forget(start.files, start.output)


def _last_used(run_file: RunFile, earlier: RunFile | None) -> RunFile:
    """The run file with the directory of the last run that sent rows: this one has sent none."""
    if earlier is None:
        return run_file
    return msgspec.structs.replace(
        run_file,
        checkpoints=earlier.checkpoints,
        checkpoint_dir=earlier.checkpoint_dir,
        own_servers=earlier.own_servers,
    )


def _using(run_file: RunFile, own: OwnStore | None, *, own_servers: bool) -> RunFile:
    """The run file of a run that sends rows with this directory, or with none."""
    if own is None:
        return run_file
    where = str(own.store.root.absolute())
    return msgspec.structs.replace(
        run_file, checkpoints=own.run, checkpoint_dir=where, own_servers=own_servers
    )


def _put(draft: Draft, rows: Materialized, place: Path) -> None:
    """The materialised file is written once and rebuilt where it was cut; a whole one is not touched."""
    if sha256_of(place) == rows.sha256:
        draft.discard()
    else:
        draft.commit()


def _stand(start: _Start, run_file: RunFile, rows: Materialized, sinks: Sinks) -> Outset:
    files = start.files
    for file in (sinks.output, sinks.failures):
        if (mended := mend_tail(file, files.torn)) is not None:
            start.warn(mended)
    rewards = RewardMean(REWARD_CLUSTERS)
    done = scan_output(files.output, rewards.add)
    tried = scan_sidecar(files.failures, retry_terminal_timeouts=start.config.output.retry_terminal_timeouts)
    attempts, fault = max_rollout_attempts(os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"))
    survey = Survey(done, tried, attempts)
    survey.look_over(lambda: read_rows(files.materialized), rows.rows)
    faults = [fault] if fault else []
    for warning in [*faults, *_findings(done), *tried.damaged.words(), *_unknown(survey)]:
        start.warn(warning)
    return Outset(
        files=files,
        run_file=run_file,
        rows=rows,
        resumed=start.resumed,
        survey=survey,
        sinks=sinks,
        rewards=rewards,
        damaged=done.damaged.count + done.duplicates.count + done.failures.count + tried.damaged.count,
    )


def _findings(scan: OutputScan) -> list[str]:
    return [*scan.damaged.words(), *scan.failures.words(), *scan.duplicates.words()]


def _unknown(survey: Survey) -> list[str]:
    if not len(survey.unknown):
        return []
    named = ", ".join(map(str, survey.unknown.lowest(_UNKNOWN_NAMED)))
    more = len(survey.unknown) - _UNKNOWN_NAMED
    return [
        f"the output has {len(survey.unknown)} rows that the input does not have, left alone: {named}"
        + (f" and {more} more" if more > 0 else "")
    ]


def _ack_fd() -> int | None:
    setting = os.environ.get(ACK_VARIABLE)
    if setting is None:
        return None
    try:
        descriptor = int(setting)
        os.fstat(descriptor)
    except (ValueError, OSError):
        raise UsageError(f"{ACK_VARIABLE}={setting!r} is not an open file descriptor") from None
    return descriptor
