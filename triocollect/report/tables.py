"""Tables of text, and what was found in outputs, for people. Pure."""

from collections.abc import Iterable, Sequence

from triocollect.metrics import Summary
from triocollect.report.outputs import Output
from triocollect.report.wording import mean_with_interval


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; the first one left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *lines)
    )


def agent_table(summaries: Sequence[Summary]) -> str:
    """One line per agent: counts, mean reward with interval, pass@k for k = 1, 2, 4, … and the largest."""
    if not summaries:
        return "No results."
    largest = max((max(summary.pass_at or {0: 0.0}) for summary in summaries), default=0)
    shown = sorted({k for summary in summaries for k in summary.pass_at or () if _is_shown(k, largest)})
    head = ["agent", "tasks", "rollouts", "masked", "unscored", "mean reward"]
    return table(
        [*head, *(f"pass@{k}" for k in shown)],
        [
            [
                summary.label or "(unnamed)",
                str(summary.tasks),
                str(summary.rollouts),
                str(summary.masked),
                str(summary.unscored),
                mean_with_interval(summary.mean, summary.interval),
                *(_share((summary.pass_at or {}).get(k)) for k in shown),
            ]
            for summary in summaries
        ],
    )


def _is_shown(k: int, largest: int) -> bool:
    return k == largest or not k & (k - 1)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def findings_of(outputs: Iterable[Output]) -> Iterable[str]:
    """A line for each thing in the files that does not count."""
    for output in outputs:
        for what, findings in (
            ("Damaged", output.damaged),
            ("Repeated", output.duplicates),
            ("Not a result", output.failures),
        ):
            yield from (f"{what}: {words}" for words in findings.words())
        if output.torn is not None:
            yield f"Torn: {output.torn}"
