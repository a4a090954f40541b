"""After the last row: metrics and the report that adds up."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from triocollect.collector.dispatch import Counts
from triocollect.collector.earlier import Files
from triocollect.collector.set_out import Outset
from triocollect.config.settings import OutputConfig
from triocollect.durable import replace
from triocollect.errors import ConfigError, TransportError
from triocollect.flight.budget import RetryBudget
from triocollect.gym.counted_zeros import (
    Zeros,
    carried_fields,
    fill_task_fields,
    zeros_of_failures,
    zeros_of_missing,
)
from triocollect.gym.metrics import fetch_metrics, file_bytes, share_out
from triocollect.gym.routing import Routing
from triocollect.protocol.ids import RowKey
from triocollect.records.findings import Findings, KeySet
from triocollect.records.heads import decode_output_head, decode_sidecar_head, head_of
from triocollect.records.lines import Lines
from triocollect.report.run_report import Ending, Paths, Report
from triocollect.transport import Transport


async def aggregate(transport: Transport, routing: Routing, files: Files, config: OutputConfig) -> str | None:
    """Have the servers compute their metrics and write Gym's aggregate file; say what went wrong, if it did.

    Rows are safe whatever happens here. Raises StorageError.
    """
    zeros = _zeros(files, config)
    records = [*successes(files.output), *map(msgspec.json.encode, zeros.values())]
    if not records:
        return None
    try:
        entries = await fetch_metrics(transport, share_out(records, routing))
    except (TransportError, ConfigError, msgspec.MsgspecError) as error:
        return (
            f"no aggregate metrics: {error}. The rows are safe; `triocollect aggregate` computes them offline"
        )
    replace(files.aggregate, file_bytes(entries))
    return None


def successes(output: Path) -> Iterator[bytes]:
    """The first success line of every row, without its newline."""
    seen, ignored = KeySet(), Findings(output)
    for line in Lines(output):
        head = head_of(line, decode_output_head, ignored)
        if head is not None and line.data is not None and not head.is_failure and seen.add(head.key):
            yield bytes(line.data)


def _zeros(files: Files, config: OutputConfig) -> Zeros:
    """Rows without a result that are counted all the same, by the user's wish."""
    classes = config.count_failure_classes_as_zero
    if not classes and not config.count_missing_rollouts_as_zero:
        return {}
    succeeded = _keys(files.output)
    zeros = zeros_of_failures(_sidecar(files.failures), classes, succeeded)
    if config.count_missing_rollouts_as_zero:
        recorded = succeeded | _keys(files.failures)
        zeros |= zeros_of_missing(_plain(files.materialized), recorded)
    fill_task_fields(zeros, carried_fields(successes(files.output)), _plain(files.materialized))
    return zeros


def _sidecar(path: Path) -> Iterator[bytes]:
    ignored = Findings(path)
    for line in Lines(path):
        if head_of(line, decode_sidecar_head, ignored) is not None and line.data is not None:
            yield bytes(line.data)


def _plain(path: Path) -> Iterator[bytes]:
    return (bytes(line.data) for line in Lines(path) if line.data is not None)


def _keys(path: Path) -> set[RowKey]:
    ignored = Findings(path)
    heads = (head_of(line, decode_sidecar_head, ignored) for line in Lines(path))
    return {head.key for head in heads if head is not None}


def report_of(
    outset: Outset, counts: Counts, retries: RetryBudget, config: OutputConfig, *, seconds: float
) -> Report:
    """The report of a run whose rows have all ended. The caller adds its notes."""
    standing, files = outset.standing, outset.files
    succeeded, failed = standing.done_expected + counts.succeeded_now, len(counts.failed)
    left = standing.expected - succeeded - failed
    by_class: dict[str, int] = {}
    for failure_class in counts.failed.values():
        by_class[failure_class or "unknown"] = by_class.get(failure_class or "unknown", 0) + 1
    return Report(
        run=outset.run_file.run,
        ending=_ending(config, succeeded=succeeded, left=left, failed=failed, sends=retries.sends),
        expected=standing.expected,
        succeeded=succeeded,
        failed=failed,
        left=left,
        succeeded_now=counts.succeeded_now,
        failed_now=counts.failed_now,
        sends=retries.sends,
        retried=retries.sends - retries.rows,
        failures_by_class=by_class,
        mean_reward=counts.rewards.mean,
        rewards=counts.rewards.count,
        reward_interval=counts.rewards.interval(),
        damaged=outset.damaged,
        notes=(),
        seconds=seconds,
        paths=_paths(files),
    )


def nothing_to_do(files: Files, *, seconds: float) -> Report:
    """The report for an input without rows: nothing was sent and nothing written."""
    return Report(
        run="",
        ending="complete",
        expected=0,
        succeeded=0,
        failed=0,
        left=0,
        succeeded_now=0,
        failed_now=0,
        sends=0,
        retried=0,
        failures_by_class={},
        mean_reward=None,
        rewards=0,
        damaged=0,
        notes=("the input has no rows",),
        seconds=seconds,
        paths=_paths(files),
    )


def _ending(config: OutputConfig, *, succeeded: int, left: int, failed: int, sends: int) -> Ending:
    if left:
        return "left"
    counted = bool(config.count_failure_classes_as_zero) or config.count_missing_rollouts_as_zero
    if sends and not succeeded and not counted:
        return "nothing_succeeded"
    return "incomplete" if failed and config.require_complete else "complete"


def _paths(files: Files) -> Paths:
    return Paths(
        output=str(files.output),
        failures=str(files.failures),
        materialized=str(files.materialized),
        run=str(files.run),
        aggregate=str(files.aggregate) if files.aggregate.exists() else None,
        torn=str(files.torn) if files.torn.exists() else None,
    )
