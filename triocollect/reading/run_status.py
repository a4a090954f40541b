"""How a run stands: its rows, the rows under way, and its checkpoints. What `status` tells."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from triocollect.checkpoint.directory import DISPATCHED, read_outcomes
from triocollect.checkpoint.sent import read_dispatched
from triocollect.collector.earlier import read_run_file
from triocollect.collector.last_directory import id_of
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.reading.changed import changed_input
from triocollect.reading.collector import Collector, collector_of
from triocollect.reading.places import Place
from triocollect.reading.restart import Restart, restart_of
from triocollect.report.machine import as_json
from triocollect.report.status import OutputStatus, status
from triocollect.report.wording import calls_under_way, rows, span_of_time
from triocollect.rows.names import run_path

OUTCOMES_TOLD: Final = 3
_NAMED: Final = 5

T = TypeVar("T")


class DirectoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint directory. `outcomes`: the last tries, the latest at the end.

    `faults`: what is damaged, a line each; `collector` is None where its lock file is.
    """

    directory: str
    collector: Collector | None
    restart: Restart
    outcomes: tuple[CheckpointOutcome, ...]
    faults: tuple[str, ...]


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its output and its checkpoint directory, as far as they were found."""

    output: OutputStatus | None
    checkpoints: DirectoryStatus | None
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether something there is not as it was written."""
        found = self.checkpoints
        rows = self.output is not None and self.output.damaged > 0
        return bool(
            rows
            or self.faults
            or (found is not None and (found.faults or found.restart.passed_over or found.restart.faults))
        )


class RunsStatus(msgspec.Struct, frozen=True):
    """All runs that were asked about."""

    runs: tuple[RunStatus, ...]

    @property
    def damaged(self) -> bool:
        """Whether something there is not as it was written."""
        return any(one.damaged for one in self.runs)

    def as_json(self) -> bytes:
        """For programs: one JSON object."""
        return as_json(self)

    def text(self, now: datetime) -> str:
        """For people."""
        return "\n\n".join("\n".join(_lines(one, now)) for one in self.runs)


def run_status_of(found: Sequence[Place]) -> RunsStatus:
    """Look; changes nothing and takes no lock. Raises StorageError where the output cannot be read."""
    return RunsStatus(tuple(_run(place) for place in found))


def _run(place: Place) -> RunStatus:
    output = None if place.output is None else status(place.output).outputs[0]
    notes, faults, own = list[str](), list[str](), True
    if place.output is None:
        notes.append(
            "no output near it was collected with it the last time, so nobody can tell which rows are done; "
            "--output names one"
        )
    else:
        run_file, fault = read_run_file(run_path(place.output))
        faults += [] if fault is None else [fault]
        used = None if run_file is None else run_file.checkpoints or None
        if place.directory is None and used is not None:
            was = "near it" if run_file is None else run_file.checkpoint_dir or "near it"
            notes.append(f"its checkpoint directory is not {was}; --checkpoint-dir names it")
        own = run_file is None or run_file.own_servers is not False
        if run_file is not None and (changed := changed_input(run_file)) is not None:
            notes.append(changed)
    directory = None if place.directory is None else _directory(place)
    if directory is not None and directory.restart.continues and not own:
        notes.append(
            "its servers are not its own: rows are continued on servers that were started anew, and started "
            "from their input on those that are up still"
        )
    return RunStatus(output=output, checkpoints=directory, notes=tuple(notes), faults=tuple(faults))


def _directory(place: Place) -> DirectoryStatus:
    root = place.directory
    assert root is not None
    faults = list[str]()
    collector = _or_fault(lambda: collector_of(root), faults)
    outcomes = _or_fault(lambda: read_outcomes(root)[0], faults) or []
    faults += read_dispatched(root / DISPATCHED, keep=lambda _: False).faults
    return DirectoryStatus(
        directory=str(root),
        collector=collector,
        restart=restart_of(place.output, root, owns=owns(place)),
        outcomes=tuple(outcomes[-OUTCOMES_TOLD:]),
        faults=tuple(faults),
    )


def owns(place: Place) -> bool:
    """Whether a run of this output would continue the checkpoints of this directory."""
    if place.output is None or place.directory is None:
        return place.directory is not None
    run_file, _ = read_run_file(run_path(place.output))
    return run_file is None or run_file.checkpoints == id_of(place.directory)


def _or_fault(read: Callable[[], T], faults: list[str]) -> T | None:
    try:
        return read()
    except (DamageError, StorageError) as error:
        faults.append(str(error))
        return None


def _lines(run: RunStatus, now: datetime) -> Iterator[str]:
    if run.output is not None:
        yield from run.output.lines()
    yield from (f"  damaged    {fault}" for fault in run.faults)
    if (found := run.checkpoints) is not None:
        yield from _lines_of_directory(found, now)
    yield from (f"  note       {note}" for note in run.notes)


def _lines_of_directory(found: DirectoryStatus, now: datetime) -> Iterator[str]:
    yield found.directory
    if found.collector is not None:
        yield f"  collector  {found.collector.words()}"
    yield from _lines_of(found.restart)
    for outcome in found.outcomes:
        yield f"  {'published' if outcome.published else 'in vain':<9}  {_words(outcome, now)}"
    yield from (f"  damaged    {fault}" for fault in found.faults)


def _lines_of(restart: Restart) -> Iterator[str]:
    yield f"  LATEST     {restart.checkpoint_id or 'no checkpoint'}"
    yield from (f"  beside     {name}: a checkpoint of another output" for name in restart.of_others)
    yield from (f"  damaged    {skipped}" for skipped in restart.passed_over)
    yield from (f"  damaged    {fault}" for fault in restart.faults)
    if not restart.known:
        return
    under_way = len(restart.continues) + len(restart.restarts)
    yield (
        f"  in flight  {rows(under_way)} when last written down; the same command continues "
        f"{len(restart.continues)} and starts {len(restart.restarts)} from the input"
    )
    for one in restart.restarts[:_NAMED]:
        yield f"             {one.rollout_id}, attempt {one.attempt}, from its input: {one.why}"
    if len(restart.restarts) > _NAMED:
        yield f"             … and {len(restart.restarts) - _NAMED} more from their input"


def _words(outcome: CheckpointOutcome, now: datetime) -> str:
    ago = "" if isinstance(outcome.ended, msgspec.UnsetType) else f", {age(outcome.ended, now)} ago"
    if not outcome.published:
        return f"{outcome.checkpoint_id or 'nothing tried'}{ago}: {outcome.reason}"
    return (
        f"{outcome.checkpoint_id}{ago}: {rows(outcome.continued)} with {outcome.work_s:.0f} s of work, "
        f"{outcome.restarted} left out, {outcome.bytes} bytes"
        + calls_under_way("calls under way", outcome.undelivered, outcome.cut, outcome.kept_tokens)
    )


def age(written: str, now: datetime) -> str:
    """How long ago a time of a file of ours is, in words."""
    try:
        then = datetime.fromisoformat(written)
    except ValueError:
        return "unknown"
    return span_of_time((now - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds())
