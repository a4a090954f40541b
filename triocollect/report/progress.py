"""What the user sees while rows run: events go in, a display is drawn a few times a second."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Final, TextIO

import trio

from triocollect.config.settings import ProgressStyle
from triocollect.events import Event, Listener, Note
from triocollect.report.displays import Display, JsonLines, PlainLines, Silence
from triocollect.report.tally import Tally
from triocollect.telemetry.logs import message_of

DRAW_EVERY_S: Final = 0.25
_OURS: Final = "triocollect"


class Progress:
    """Listens to a run (`listen`), draws it (`run`, a service task), and has the last word (`close`).

    `stream` is standard error as a rule, None where that is closed. `clock` gives seconds that never go
    back. A display that fails, whatever for, is silenced and never disturbs the run.
    """

    def __init__(
        self, style: ProgressStyle, stream: TextIO | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tally: Final = Tally()
        self._clock: Final = clock
        self._display: Display = Silence()
        if stream is not None:
            with self._harmless():
                self._display = _display(style, stream)

    def listen(self, event: Event) -> None:
        """An `events.Listener`: takes the event in; costs a few microseconds."""
        with self._harmless():
            self.tally.apply(event, self._clock())
            self._display.tell(event)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Draw until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(DRAW_EVERY_S)
            self.draw()

    def draw(self) -> None:
        """Show how the run stands, if the display finds it time to."""
        with self._harmless():
            self._display.draw(self.tally, self._clock())

    def close(self) -> None:
        """Show how the run stands for the last time; a second call does nothing."""
        display, self._display = self._display, Silence()
        with self._harmless():
            display.draw(self.tally, self._clock())
            display.close(self.tally, self._clock())

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit):  # noqa: BLE001  # rows are worth more than the sight of them
            self._display = Silence()


@contextlib.contextmanager
def warnings_as_notes(style: ProgressStyle, listen: Listener) -> Iterator[None]:
    """While events are told as JSON, so is what is logged: whoever reads them gets no other line between."""
    if style != "json":
        yield
        return
    logged = _Logged(listen)
    logging.getLogger(_OURS).addHandler(logged)
    try:
        yield
    finally:
        logging.getLogger(_OURS).removeHandler(logged)


class _Logged(logging.Handler):
    def __init__(self, listen: Listener) -> None:
        super().__init__(logging.WARNING)
        self._listen: Final = listen

    def emit(self, record: logging.LogRecord) -> None:
        self._listen(Note(message_of(record), "warning"))


def _display(style: ProgressStyle, stream: TextIO) -> Display:
    if style == "auto":
        smart = stream.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}
        style = "rich" if smart else "plain"
    match style:
        case "rich":
            from triocollect.report.panel import LivePanel  # noqa: PLC0415  # rich is slow to load

            return LivePanel(stream)
        case "plain":
            return PlainLines(stream)
        case "json":
            return JsonLines(stream)
        case "none":
            return Silence()
