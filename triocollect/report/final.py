"""The end of a run, for people. Pure."""

from collections.abc import Iterator
from typing import Final

from triocollect.report.run_report import Continued, Ending, Report
from triocollect.report.wording import by_class, calls_under_way, clock_time, mean_in_words, rows, several

_ENDINGS: Final[dict[Ending, str]] = {
    "complete": "Finished rollout collection!",
    "incomplete": "Finished rollout collection, but not every row is a success, as was required.",
    "nothing_succeeded": "Finished rollout collection, but not one row succeeded.",
    "left": "Rollout collection stopped with rows left.",
    "preempted": "Rollout collection was told to stop, with rows left.",
    "interrupted": "Rollout collection was interrupted.",
}


def render(report: Report) -> str:
    """The last lines of a run: how it ended, what adds up, where everything is, how to go on."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    named = "" if report.run is None else f" Run {report.run}, {clock_time(report.seconds)}."
    yield f"{_ENDINGS[report.ending]}{named}"
    yield from (f"- {note}" for note in report.notes)
    yield (
        f"Rows: {report.expected} expected = {report.succeeded} succeeded + {report.failed} failed "
        f"+ {report.left} left"
    )
    if report.run is None:
        yield "Nothing was sent, nothing was written."
        return
    yield (
        f"This run: {report.succeeded_now} succeeded, {report.failed_now} failed, "
        f"{report.sends} sent, {report.retried} of them again"
    )
    if report.failed:
        yield from _failures(report)
    if report.damaged:
        yield f"Damaged lines: {report.damaged}, left as they are; their rows count as unfinished"
    yield from _rewards(report)
    yield f"Metrics cover: {report.succeeded} of {report.expected} rollouts"
    yield from _preemptions(report)
    yield from _places(report)
    if report.checkpoint is not None:
        yield f"Checkpoint {report.checkpoint}: rows in flight go on from where they were cut."
    if report.left or report.ending in {"left", "preempted"}:
        again = "start its servers anew and " if report.other_servers else ""
        left = f"{rows(report.left)} left" if report.left else "Failed rows were not all tried again"
        yield f"{left}. To continue, {again}give the same command again."


def _preemptions(report: Report) -> Iterator[str]:
    """What they cost, and what they did not."""
    if (continued := report.continued) is not None:
        work = "" if continued.work_s is None else f", with {continued.work_s:.0f} s of work behind them"
        saved = continued.calls_saved
        kept = "" if saved is None else f"; model calls not made again: {saved}"
        yield f"Cut and continued: {rows(continued.rows)}{work}{kept}{_calls_then(continued)}"
        if continued.anew:
            lost = "" if continued.lost_s is None else f"; lost: {continued.lost_s:.0f} s of work"
            yield f"Cut and started from the input again: {rows(continued.anew)}{lost}"
    if report.checkpoints.published or report.checkpoints.failed:
        taken = report.checkpoints
        failed = f", {taken.failed} tried in vain" if taken.failed else ""
        yield f"Checkpoints: {taken.published}{failed}; no row started for {taken.paused_s:.1f} s in all"


def _calls_then(continued: Continued) -> str:
    """As the checkpoint counted them: what it kept may be lost since, and a note says so then."""
    calls, cut, tokens = continued.calls_again, continued.calls_cut, continued.tokens_kept
    if calls and cut and tokens is not None:
        kept = f"the checkpoint kept {cut} with {several(tokens, 'token')}"
        return f"; calls under way then: {calls}, of which {kept}"
    return calls_under_way("calls under way then", calls, None, None)


def _rewards(report: Report) -> Iterator[str]:
    if report.rewards:
        said = mean_in_words(report.mean_reward, report.reward_interval)
        yield f"Mean reward: {said} over {report.rewards} rollouts"
    elif report.succeeded:
        yield "Mean reward: none, as no result has a number as its `reward`: is that what the servers mean?"


def _failures(report: Report) -> Iterator[str]:
    yield f"Failed: {by_class(report.failures_by_class)}; see {report.paths.failures}"
    for failure_class, message in report.failure_examples.items():
        yield f"  {failure_class}, for example: {message}"
    if report.exhausted:
        yield (
            f"  {rows(report.exhausted)} failed too often to be tried again; "
            "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS (3) raises the limit"
        )
    if report.failed > report.exhausted:
        yield "  The same command again tries failed rows again, unless their failure is final."


def _places(report: Report) -> Iterator[str]:
    paths = report.paths
    yield f"Fully materialized inputs: {paths.materialized}"
    yield f"Rollouts: {paths.output}"
    if paths.aggregate is not None:  # else a note says why, or it was not wanted
        yield f"Aggregate metrics: {paths.aggregate}"
    if paths.torn is not None:
        yield f"Torn lines, cut off and kept: {paths.torn}"
