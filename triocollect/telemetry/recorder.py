"""What settings ask for, set up: who listens to a run, what its rows say, who records a server's work."""

import os
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from attrs import define, field

from triocollect.config.settings import TelemetryConfig
from triocollect.errors import UsageError
from triocollect.events import EVENTS, Event, Listener
from triocollect.protocol.ids import RowKey
from triocollect.telemetry.here import Recording
from triocollect.telemetry.logs import JsonLog
from triocollect.telemetry.story import Story

if TYPE_CHECKING:
    from triocollect.telemetry.exporting import Exporting  # needs OpenTelemetry
    from triocollect.telemetry.rows import Rows

LAST_WORDS_S: Final = 0.5  # the longest wait of a server that ends, for what is not sent yet
_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http", "prometheus_client")


@define(kw_only=True)
class Recorder:
    """What was set up, until it is closed."""

    tell: Callable[[str], None]  # gets the one line of what goes wrong, from any thread
    recording: Recording = field(factory=Recording)
    listeners: dict[type[Event], list[Listener]] = field(factory=dict)  # to a run, by what they hear
    rows: "Rows | None" = None
    headers: Callable[[RowKey], Sequence[tuple[bytes, bytes]]] | None = None  # beside a row, on its `/run`
    endings: list[Callable[[], None]] = field(factory=list)  # what is open is over
    exporting: "Exporting | None" = None

    def hear(self, listener: Listener, events: Iterable[type[Event]]) -> None:
        """From now on it listens to these."""
        for event in events:
            self.listeners.setdefault(event, []).append(listener)

    def listen(self, event: Event) -> None:
        """An `events.Listener`. Who fails at an event hears no more: a row is worth more than word of it."""
        for listener in self.listeners.get(type(event), ()):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001  # as said
                self.listeners = {
                    kind: [one for one in them if one is not listener]
                    for kind, them in self.listeners.items()
                }
                self.tell(f"telemetry ends here: {type(error).__name__}: {error}")

    def close(self, within_s: float) -> None:
        """End what is open, and send what is left for at most so long; blocks."""
        for end in self.endings:
            end()
        if self.exporting is not None:
            self.exporting.close(within_s)
        if self.recording.log is not None:
            self.recording.log.close()


def start(settings: TelemetryConfig, *, service: str, instance: str, tell: Callable[[str], None]) -> Recorder:
    """Set up what is asked for. Raises UsageError: the extra is missing, a file or a port cannot be had."""
    recorder = Recorder(tell=tell)
    if settings.log_json is not None:
        log = JsonLog(settings.log_json, instance, tell)
        recorder.recording = Recording(log=log)
        recorder.hear(Story(log).listen, EVENTS)
    if not wanted(settings):
        return recorder
    require_extra(settings)
    from triocollect.telemetry.exporting import Exporting, set_up  # noqa: PLC0415  # needs OpenTelemetry

    recorder.exporting = exporting = Exporting(service, instance, tell)
    try:
        set_up(recorder, settings, exporting)
    except ValueError as error:
        recorder.close(0.0)
        raise UsageError(f"telemetry: an OTEL_* variable is wrong: {error}") from error
    except UsageError:
        recorder.close(0.0)
        raise
    return recorder


def require_extra(settings: TelemetryConfig) -> None:
    """Raises UsageError, with the command that helps, where the `telemetry` extra is missing."""
    missing = list[str]()
    try:
        missing = [name for name in _NEEDED if find_spec(name) is None]
    except ModuleNotFoundError as error:  # not even the package around it
        missing = [str(error.name)]
    if missing:
        asked = "--prometheus" if settings.export == "none" else "--telemetry"
        raise UsageError(f"{asked} needs {', '.join(missing)}: pip install 'triocollect[telemetry]'")


def wanted(settings: TelemetryConfig) -> bool:
    """Whether anything is asked for that needs OpenTelemetry."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and (settings.export != "none" or settings.prometheus is not None)
