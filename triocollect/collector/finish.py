"""After the last row: metrics and the report that adds up."""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio

from triocollect.checkpoint.orders import Published, RowsEnd
from triocollect.collector.continuing import refused_since
from triocollect.collector.earlier import Files
from triocollect.collector.fleet import Fleet
from triocollect.collector.set_out import Outset
from triocollect.config.settings import Config, OutputConfig
from triocollect.durable import replace
from triocollect.errors import TransportError, UsageError
from triocollect.gym.counted_zeros import (
    Zeros,
    carried_fields,
    fill_task_fields,
    zeros_of_failures,
    zeros_of_missing,
)
from triocollect.gym.metrics import fetch_metrics, share_out
from triocollect.gym.routing import Routing
from triocollect.metrics import TELLING_TASKS, file_bytes
from triocollect.protocol.ids import RowKey
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings, KeySet
from triocollect.records.heads import decode_output_head, decode_sidecar_head, head_of
from triocollect.records.lines import Lines
from triocollect.report.run_report import Checkpoints, Ending, Paths, Report
from triocollect.transport import Client

AGGREGATE_PATIENCE_S: Final = 600.0  # the servers read every record of the run


async def aggregate(
    transport: Client, routing: Callable[[], Awaitable[Routing]], files: Files, config: OutputConfig
) -> str | None:
    """Have the servers compute their metrics and write Gym's aggregate file; say what went wrong, if it did.

    `routing` tells where records are aggregated now: names may have moved while rows ran. Rows are safe
    whatever happens here. Raises StorageError.
    """
    try:
        with trio.fail_after(AGGREGATE_PATIENCE_S):
            zeros = _zeros(files, config)
            records = itertools.chain(successes(files.output), map(msgspec.json.encode, zeros.values()))
            shares = share_out(records, await routing())
            entries = await fetch_metrics(transport, shares)
    except (TransportError, UsageError, *NOT_JSON) as error:
        fault = str(error)
    except trio.TooSlowError:
        fault = f"the servers did not answer within {AGGREGATE_PATIENCE_S:g} s"
    else:
        if entries:
            replace(files.aggregate, file_bytes(entries))
        return None
    return f"no aggregate metrics: {fault}. The rows are safe; `triocollect aggregate` computes them offline"


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
    succeeded = _keys(files.output, failures=False)
    zeros = zeros_of_failures(_sidecar(files.failures), classes, succeeded)
    if config.count_missing_rollouts_as_zero:
        recorded = succeeded | _keys(files.failures, failures=True)
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


def _keys(path: Path, *, failures: bool) -> set[RowKey]:
    ignored = Findings(path)
    heads = (head_of(line, decode_output_head, ignored) for line in Lines(path))
    return {head.key for head in heads if head is not None and head.is_failure is failures}


def report_of(outset: Outset, fleet: Fleet, config: OutputConfig, *, seconds: float) -> Report:
    """The report of a run whose rows have all ended. The caller adds its notes."""
    survey, counts, retries = outset.survey, fleet.counts, fleet.retries
    succeeded, failed = survey.done_expected + counts.succeeded_now, len(counts.failed)
    left = survey.expected - succeeded - failed
    tale = _Tale(
        succeeded=succeeded,
        failed=failed,
        left=left > 0 or fleet.cut_short or _was_cut(outset, fleet),
        sends=retries.sends,
        ending=fleet.ended.ending,
    )
    return Report(
        run=outset.run_file.run,
        ending=_ending(config, tale),
        expected=survey.expected,
        succeeded=succeeded,
        failed=failed,
        left=left,
        succeeded_now=counts.succeeded_now,
        failed_now=counts.failed_now,
        sends=retries.sends,
        retried=retries.sends - retries.rows,
        failures_by_class=Counter(counts.failed.values()),
        failure_examples=counts.examples,
        exhausted=survey.exhausted,
        mean_reward=counts.rewards.mean,
        rewards=counts.rewards.count,
        reward_interval=counts.rewards.interval(TELLING_TASKS),
        damaged=outset.damaged,
        other_servers=outset.run_file.own_servers is False,
        checkpoint=_checkpoint_of(fleet),
        continued=refused_since(fleet.continued, counts.not_continued),
        seconds=seconds,
        paths=_paths(outset.files),
    )


def _was_cut(outset: Outset, fleet: Fleet) -> bool:
    """Whether a stop came before every row of this run had its end; one that failed earlier is not left."""
    counts = fleet.counts
    return not fleet.is_done and counts.succeeded_now + counts.failed_now < outset.survey.to_send


def nothing_to_do(config: Config, *, seconds: float) -> Report:
    """The report for an input without rows: a success, as in Gym 0.7.0, unless a complete run is required."""
    return Report(
        run=None,
        ending="incomplete" if config.output.require_complete else "complete",
        expected=0,
        notes=(f"the input has no rows: {config.input.path}",),
        seconds=seconds,
        paths=_paths(Files(config.output.path)),
    )


def _checkpoint_of(fleet: Fleet) -> str | None:
    """The checkpoint that a stopped run can be continued from, if its last one was published."""
    taken = fleet.ended.taken
    return taken.outcome.checkpoint_id if isinstance(taken, Published) else None


def checkpoints_of(outcomes: Sequence[CheckpointOutcome]) -> Checkpoints:
    """What was tried, and how long it held rows up."""
    published = sum(outcome.published for outcome in outcomes)
    paused_s = sum(sum(outcome.phases_s.values()) for outcome in outcomes)
    return Checkpoints(published, len(outcomes) - published, paused_s)


class _Tale(NamedTuple):
    succeeded: int
    failed: int
    left: bool  # rows that were not tried, or were cut
    sends: int
    ending: RowsEnd


def _ending(config: OutputConfig, tale: _Tale) -> Ending:
    if tale.ending is RowsEnd.INTERRUPTED:
        return "interrupted"
    if tale.left:
        return "preempted" if tale.ending is RowsEnd.PREEMPTED else "left"
    counted = bool(config.count_failure_classes_as_zero) or config.count_missing_rollouts_as_zero
    if tale.sends and not tale.succeeded and not counted:
        return "nothing_succeeded"
    return "incomplete" if tale.failed and config.require_complete else "complete"


def _paths(files: Files) -> Paths:
    return Paths(
        output=str(files.output),
        failures=str(files.failures),
        materialized=str(files.materialized),
        run=str(files.run),
        aggregate=str(files.aggregate) if files.aggregate.exists() else None,
        torn=str(files.torn) if files.torn.exists() else None,
    )
