"""The live panel on a terminal."""

from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table

from triocollect.events import Event, Note, RunStarted
from triocollect.metrics import TELLING_TASKS
from triocollect.report.displays import last_checkpoint, opening, progress_line
from triocollect.report.tally import Tally
from triocollect.report.wording import by_class, clock_time, mean_in_words, span


class _Console(Console):
    """A console that leaves it to others what a reader who has gone away means.

    rich ends the program then, and standard output with it.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class LivePanel:
    """Redraws in place; notes scroll away above it; one plain line stays at the end.

    Nothing draws by itself: rich's own refreshing thread is off. Standard output and standard error stay what
    they are: the one may be a machine-readable result, the other is needed after a panel that failed.
    """

    def __init__(self, stream: TextIO, *, width: int | None = None) -> None:
        self._console = _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def tell(self, event: Event) -> None:
        """Print notes, and what is about to begin, above the panel."""
        if isinstance(event, Note):
            self._console.print(event.text, style="yellow" if event.level == "warning" else None)
        elif isinstance(event, RunStarted):
            if text := opening(event):
                self._console.print(text)
            self._live.start()

    def draw(self, tally: Tally, now: float) -> None:
        """Redraw the panel."""
        if self._live.is_started:
            self._live.update(panel(tally, now), refresh=True)

    def close(self, tally: Tally, now: float) -> None:
        """Take the panel away and leave a line."""
        if self._live.is_started:
            self._live.stop()
            if tally.finished:
                self._console.print(progress_line(tally, now), soft_wrap=True)


def panel(tally: Tally, now: float) -> Panel:
    """Everything that is known of the run, in a frame."""
    eta = tally.eta(now)
    counts = f"{tally.finished} done, {len(tally.flying)} in flight, {tally.queued} left"
    if earlier := tally.done + tally.given_up:
        counts += f" (and {earlier} of earlier runs)"
    facts = Table.grid(padding=(0, 2), expand=True)
    facts.add_column(no_wrap=True, style="dim")
    facts.add_column(ratio=1)
    facts.add_row(f"{tally.percent:g}%", ProgressBar(total=max(tally.to_run, 1), completed=tally.finished))
    facts.add_row("rows", counts)
    facts.add_row(
        "time",
        f"{clock_time(tally.seconds(now))}, {tally.rows_per_minute(now):.1f} rows/min, "
        + ("no estimate yet" if eta is None else f"about {clock_time(eta)} left"),
    )
    facts.add_row("mean reward", _reward(tally))
    if tally.failed:
        facts.add_row("failed", f"{tally.failed} ({by_class(tally.failures)})")
    if tally.retried:
        facts.add_row("retried", str(tally.retried))
    if (checkpoint := last_checkpoint(tally, now)) is not None:
        facts.add_row("checkpoint", checkpoint)
    return Panel(facts, title="triocollect", title_align="left")


def _reward(tally: Tally) -> str:
    said = mean_in_words(tally.rewards.mean, tally.rewards.interval(TELLING_TASKS))
    limits = tally.reward_bounds()
    if tally.rewards.count and limits is not None and limits.low < limits.high:
        said += f", unfinished rows can move it within {span(limits)}"
    return said
