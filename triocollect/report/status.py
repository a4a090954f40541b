"""How a run stands, read from its files alone: while it runs, after it ended, or after it was killed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from triocollect.errors import DamageError
from triocollect.protocol.ids import RowKey
from triocollect.records.causes import causes_in
from triocollect.records.findings import Findings
from triocollect.records.output import OutputScan, scan_output
from triocollect.records.sidecar import SidecarScan, scan_sidecar
from triocollect.records.tail import is_whole_object, read_tail
from triocollect.report.machine import as_json
from triocollect.report.outputs import expected_keys, expected_rows, find_outputs
from triocollect.report.wording import by_class, rows
from triocollect.rows.names import failures_path

Tail = Literal["whole", "unended", "torn"]  # unended: a whole line that lacks its newline


class OutputStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One output. `failed` counts rows whose last word is a sidecar line, `terminal` those never tried again.

    `expected` and `left` are None where no file tells how many rows there should be. `attempts` has how many
    rows stand at which attempt (the highest that a result or failure line of theirs names).
    """

    output: str
    expected: int | None
    succeeded: int
    failed: int
    left: int | None
    unknown: int  # rows with a result or a failure that the data set does not have; not counted above
    failures_by_class: Mapping[str, int]
    failure_examples: Mapping[str, str]  # the words of one of each class
    terminal: int
    attempts: Mapping[int, int]
    damaged: int
    duplicates: int
    misplaced: int  # failures among the results
    tails: Mapping[str, Tail]  # of output and sidecar
    findings: tuple[str, ...]  # the first of each kind, in words

    def lines(self) -> Iterator[str]:
        """For people."""
        return _lines(self)


class Status(msgspec.Struct, frozen=True):
    """All outputs that were asked about."""

    outputs: tuple[OutputStatus, ...]

    def as_json(self) -> bytes:
        """For programs: one JSON object."""
        return as_json(self)

    def text(self) -> str:
        """For people."""
        return "\n\n".join("\n".join(output.lines()) for output in self.outputs)


def status(path: Path) -> Status:
    """Look at an output, or at all outputs in a folder; changes nothing and takes no lock.

    Raises UsageError where there is no output, StorageError where a file cannot be read.
    """
    return Status(tuple(_status_of(output) for output in find_outputs([path])))


def _status_of(output: Path) -> OutputStatus:
    sidecar = failures_path(output)
    results, failures = scan_output(output), scan_sidecar(sidecar)
    tails = {str(path): _tail(path) for path in (output, sidecar) if path.exists()}
    failed = {key: tried for key, tried in failures.tried.items() if key not in results.done}
    ended = len(results.done) + len(failed)
    if (known := expected_keys(output)) is not None:
        failed = {key: tried for key, tried in failed.items() if key in known}
    succeeded = sum(known is None or key in known for key in results.done)
    classes = {key: tried.failure_class for key, tried in failed.items()}
    expected = expected_rows(output)
    if expected is not None and expected < succeeded + len(failed):
        expected = None  # the rows are not those that it speaks of
    kinds: tuple[Findings, ...] = (
        results.damaged,
        failures.damaged,
        results.duplicates,
        results.failures,
    )
    return OutputStatus(
        output=str(output),
        expected=expected,
        succeeded=succeeded,
        failed=len(failed),
        left=None if expected is None else expected - succeeded - len(failed),
        unknown=ended - succeeded - len(failed),
        failures_by_class=Counter(classes.values()),
        failure_examples=causes_in(sidecar, classes),
        terminal=sum(tried.terminal for tried in failed.values()),
        attempts=_attempts(results, failures),
        damaged=results.damaged.count + failures.damaged.count,
        duplicates=results.duplicates.count,
        misplaced=results.failures.count,
        tails=tails,
        findings=tuple(words for kind in kinds for words in kind.words()),
    )


def _attempts(results: OutputScan, failures: SidecarScan) -> Mapping[int, int]:
    highest: dict[RowKey, int] = dict(results.attempts)
    for key, tried in failures.tried.items():
        highest[key] = max(tried.attempt, highest.get(key, 0))
    first = sum(1 for key in results.done if key not in highest)
    counted = Counter(highest.values())
    counted[0] += first
    return dict(sorted((+counted).items()))


def _tail(path: Path) -> Tail:
    try:
        tail = read_tail(path)
    except DamageError:
        return "torn"
    if not tail:
        return "whole"
    return "unended" if is_whole_object(tail) else "torn"


def _lines(status: OutputStatus) -> Iterator[str]:
    yield status.output
    sum_of = f"{status.succeeded} succeeded + {status.failed} failed"
    if status.expected is None:
        yield f"  rows       {sum_of} (how many are expected is unknown)"
    else:
        yield f"  rows       {status.expected} expected = {sum_of} + {status.left} left"
    if status.unknown:
        yield f"  unknown    {rows(status.unknown)} that the data set does not have, not counted above"
    if status.failed:
        yield f"  failed     {by_class(status.failures_by_class)}; {status.terminal} not to be tried again"
    for failure_class, words in status.failure_examples.items():
        yield f"             {failure_class}, for example: {words}"
    if set(status.attempts) - {0}:
        counts = ", ".join(f"{attempt}: {rows(count)}" for attempt, count in status.attempts.items())
        yield f"  attempts   {counts}"
    for path, tail in status.tails.items():
        if tail == "torn":
            yield f"  torn       {path}: the last line is not whole; a resumed run cuts it off and keeps it"
        elif tail == "unended":
            yield f"  tail       {path}: the last line lacks its newline; a resumed run adds it and counts it"
    yield from (f"  found      {words}" for words in status.findings)
