"""Three ways to show a run without a terminal: lines of text, lines of JSON, nothing."""

from typing import Final, Protocol, TextIO

from triocollect.events import Event, Note, RunStarted
from triocollect.metrics import TELLING_TASKS
from triocollect.report.machine import as_json
from triocollect.report.tally import Tally
from triocollect.report.wording import by_class, clock_time, mean_in_words, rows, span

_LINE_EVERY_S: Final = 30.0
_LINES_KEPT: Final = 1000


class Display(Protocol):
    """What `Progress` draws on. Any method may raise when the stream is gone."""

    def tell(self, event: Event) -> None:
        """Called for each event; has to be cheap."""

    def draw(self, tally: Tally, now: float) -> None:
        """Called a few times a second."""

    def close(self, tally: Tally, now: float) -> None:
        """The last word."""


class Silence:
    """Shows nothing."""

    def tell(self, event: Event) -> None:
        """Ignore it."""

    def draw(self, tally: Tally, now: float) -> None:
        """Draw nothing."""

    def close(self, tally: Tally, now: float) -> None:
        """Say nothing."""


class PlainLines:
    """A line at each per cent (as Gym 0.7.0 does), and at the latest every 30 s."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told = -1.0, -1  # per cent and rows finished of the last line
        self._last_line: float | None = None

    def tell(self, event: Event) -> None:
        """Print notes, and what is about to begin."""
        if isinstance(event, Note):
            self._print(f"Warning: {event.text}" if event.level == "warning" else event.text)
        elif isinstance(event, RunStarted) and (text := opening(event)):
            self._print(text)

    def draw(self, tally: Tally, now: float) -> None:
        """Print a line when one is due."""
        if self._last_line is None or not (tally.finished or tally.flying):
            self._last_line = now
        new_step = tally.finished > 0 and tally.percent > self._told[0]
        if new_step or now - self._last_line >= _LINE_EVERY_S:
            self._line(tally, now)

    def close(self, tally: Tally, now: float) -> None:
        """Print the last line, unless it has been printed."""
        if tally.finished and self._told[1] != tally.finished:
            self._line(tally, now)

    def _line(self, tally: Tally, now: float) -> None:
        self._told, self._last_line = (tally.percent, tally.finished), now
        self._print(progress_line(tally, now))

    def _print(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class JsonLines:
    """The events themselves, one JSON object a line, handed to the stream a few times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []

    def tell(self, event: Event) -> None:
        """Keep it for the next drawing."""
        self._lines.append(as_json(event))
        if len(self._lines) >= _LINES_KEPT:
            self._flush()

    def draw(self, tally: Tally, now: float) -> None:  # noqa: ARG002  # events say it all
        """Write what has come."""
        self._flush()

    def close(self, tally: Tally, now: float) -> None:  # noqa: ARG002  # events say it all
        """Write what has come."""
        self._flush()

    def _flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._stream.write(b"\n".join([*lines, b""]).decode())
            self._stream.flush()


def opening(event: RunStarted) -> str:
    """What is about to happen, empty where nothing is.

    The block under `Resumed from cache. Found:` and the line `Querying with` are worded as in Gym 0.7.0.
    """
    lines = []
    if (resumed := event.resumed) is not None:
        lines = [
            "Resumed from cache. Found:",
            f"- {event.expected} original input rows",
            f"- {event.done} rows already done (in main jsonl)",
            f"- {resumed.failures} prior failure attempts ({resumed.failed} unique tasks) in sidecar",
            f"- {resumed.terminal} sidecar-terminal (for example skipped) → not retried",
            f"- {resumed.exhausted} hit max_attempts={resumed.max_attempts} → not retried",
            f"- {event.expected - event.done - event.given_up} rows that still need to be run",
        ]
    if event.done + event.given_up < event.expected:
        lines.append(f"Querying with {event.concurrency} concurrent requests")
    return "\n".join(lines)


def progress_line(tally: Tally, now: float) -> str:
    """One line that says how this run stands."""
    eta = tally.eta(now)
    facts = [
        f"In flight {len(tally.flying)}, left {tally.queued}",
        "ETA -" if eta is None else f"ETA {clock_time(eta)}",
    ]
    if tally.rewards.count:
        facts.append(
            f"mean reward {mean_in_words(tally.rewards.mean, tally.rewards.interval(TELLING_TASKS))}"
        )
        if (limits := tally.reward_bounds()) is not None and limits.low < limits.high:
            facts.append(f"unfinished rows can move it within {span(limits)}")
    if tally.failed:
        facts.append(f"failed {tally.failed} ({by_class(tally.failures)})")
    if tally.retried:
        facts.append(f"retried {tally.retried}")
    if (checkpoint := last_checkpoint(tally, now)) is not None:
        facts.append(f"last checkpoint {checkpoint}")
    return (
        f"Finished {tally.finished} / {tally.to_run} rollouts ({tally.percent:g}%) "
        f"in {clock_time(tally.seconds(now))} ({tally.rows_per_minute(now):.2f} rollouts/min). "
        f"{', '.join(facts)}"
    )


def last_checkpoint(tally: Tally, now: float) -> str | None:
    """How old it is and what it would save of the rows in flight now; None where there was none."""
    if tally.checkpoint is None:
        return None
    saves = f"would save {rows(len(tally.saved))} with {sum(tally.saved.values()):.0f} s of work"
    return f"{clock_time(tally.checkpoint_age(now))} ago, {saves}"
