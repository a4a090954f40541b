"""Sets the SDK up: who sends spans and metrics where. Imported only where somebody wants that.

Everything is sent by threads of its own, which end with the process at the latest. Where it goes is said by
the standard OTEL_* variables: endpoint, headers, timeout, compression, certificates, sampler, resource.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from attrs import evolve
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler

from triocollect.config.settings import TelemetryConfig
from triocollect.errors import UsageError
from triocollect.telemetry import counting, rows
from triocollect.telemetry.complaints import Complaints, not_taken, sent_elsewhere
from triocollect.telemetry.made import ResourceAttributes
from triocollect.telemetry.metrics import Metering
from triocollect.telemetry.recorder import Recorder
from triocollect.telemetry.sending import Batches, Pace, Post, Posted, given_to
from triocollect.telemetry.spans import Give, Tracing, Wanted
from triocollect.version import VERSION

PROTOCOL: Final = "http/protobuf"
MOST_WAITING: Final = 1 << 16  # rows, or other spans, that no store has taken yet: some 20 MB
MOST_AT_ONCE: Final = 1 << 12  # spans in one request, of some 600 kB
EVERY_MS: Final = 1000.0  # spans are sent so often, unless OTEL_BSP_SCHEDULE_DELAY says otherwise
AFTER_A_COMPLAINT_S: Final = 0.3  # who does not answer gets no more than this at the end
LOOK_S: Final = 0.01
_REDIRECT: Final = 3  # the first digit of their codes


def require_protocol() -> None:
    """Raises UsageError where the environment asks for what is not there."""
    for name in ("", "TRACES_", "METRICS_"):
        variable = f"OTEL_EXPORTER_OTLP_{name}PROTOCOL"
        if (asked := os.environ.get(variable, PROTOCOL)) != PROTOCOL:
            raise UsageError(f"{variable}={asked}: telemetry is sent by {PROTOCOL} only")


def resource_of(service: str, instance: str) -> Resource:
    """Who tells. Names that the environment gives win."""
    whereabouts = f"{instance}@{os.uname().nodename}:{os.getpid()}"
    given = Resource.create({"service.instance.id": whereabouts})
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    ours = {} if named else {"service.name": service}
    return given.merge(Resource({**ours, "service.version": VERSION}))


def every_s() -> float:
    """How often spans are sent. Raises UsageError for what nobody can wait for."""
    said = os.environ.get("OTEL_BSP_SCHEDULE_DELAY") or str(EVERY_MS)
    try:
        seconds = float(said) / 1000
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:  # a number that is none compares with nothing
        raise UsageError(f"OTEL_BSP_SCHEDULE_DELAY={said}: milliseconds above 0 are needed")
    return seconds


class Exporting:
    """The providers of this process, until they are closed."""

    def __init__(self, service: str, instance: str, tell: Callable[[str], None]) -> None:
        self.resource: Final = resource_of(service, instance)
        self._complaints: Final = Complaints(tell)
        self._closings: Final[list[Callable[[], None]]] = []

    def batches(self) -> Give:
        """Sends spans by OTLP, some at a time."""
        exporter = OTLPSpanExporter()
        post: Post | None = getattr(getattr(exporter, "_client", None), "export", None)
        if post is None:  # another version of the library: slower, and the same
            processor = BatchSpanProcessor(exporter, MOST_WAITING, EVERY_MS)
            self._closings.append(processor.shutdown)
            return given_to(processor, self.resource)
        about = cast("ResourceAttributes", self.resource.attributes)
        pace = Pace(every_s(), at_once=MOST_AT_ONCE, most=MOST_WAITING)
        batches = Batches(partial(self._posted, post), about, self._complaints.complain, pace)
        self._closings.append(batches.close)
        return batches.give

    def _posted(self, post: Post, data: bytes) -> Posted:
        posted = post(data)
        if (status := posted.status_code) is not None and status // 100 == _REDIRECT:
            self._complaints.complain(sent_elsewhere(status))
        return posted

    def scraped(self, address: str) -> MetricReader:
        """Serves metrics at HOST:PORT. Raises UsageError where it cannot listen there."""
        from triocollect.telemetry.scraping import scraped  # noqa: PLC0415  # has a server, slow to load

        reader, close = scraped(address)
        self._closings.append(close)
        return reader

    def meter(self, readers: Sequence[MetricReader]) -> Metering:
        """Metrics, for these readers."""
        provider = MeterProvider(readers, self.resource, shutdown_on_exit=False)
        self._closings.append(provider.shutdown)
        return Metering(provider.get_meter("triocollect", VERSION))

    def close(self, within_s: float) -> None:
        """Send what is left, for at most so long; blocks. A thread that does not end is left alone."""
        ending = [threading.Thread(target=close, daemon=True) for close in self._closings]
        deadline, complained = time.monotonic() + within_s, False
        for thread in ending:
            thread.start()
        while any(thread.is_alive() for thread in ending) and time.monotonic() < deadline:
            if self._complaints.heard and not complained:
                complained, deadline = True, min(deadline, time.monotonic() + AFTER_A_COMPLAINT_S)
            time.sleep(LOOK_S)
        if within_s and any(thread.is_alive() for thread in ending):
            self._complaints.complain(not_taken(within_s))
        self._complaints.close()


def set_up(recorder: Recorder, settings: TelemetryConfig, exporting: Exporting) -> None:
    """Spans and metrics, as they are asked for. Raises UsageError."""
    if settings.export == "otlp":
        require_protocol()
    readers = [] if settings.prometheus is None else [exporting.scraped(settings.prometheus)]
    if settings.export == "otlp":
        if _sends("TRACES"):
            trace(recorder, exporting.batches())
        if _sends("METRICS"):
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if readers:
        meter(recorder, exporting.meter(readers))


def trace(recorder: Recorder, give: Give) -> None:
    """Spans, given to this."""
    wanted = sampled_by(TracerProvider(shutdown_on_exit=False).sampler)  # as the environment says
    tracing = Tracing(give, wanted)
    of_run = followed(recorder, rows.Rows(give, wanted, lambda: tracing.run))
    recorder.recording = evolve(recorder.recording, spans=tracing)
    recorder.headers = of_run.headers
    recorder.endings += [of_run.close, tracing.end_run]


def sampled_by(sampler: Sampler) -> Wanted:
    """Whether a trace is kept. Nobody has to be asked where all are, as they are unless somebody says so."""
    if sampler.get_description().removeprefix("ParentBased{root:").startswith("AlwaysOnSampler"):
        return lambda _: True

    def wanted(trace: bytes) -> bool:
        decided = sampler.should_sample(Context(), int.from_bytes(trace), "rollout")
        return decided.decision is Decision.RECORD_AND_SAMPLE

    return wanted


def meter(recorder: Recorder, metering: Metering) -> None:
    """Metrics, from this process and from the events of a run."""
    metering.add("leases.expired", 0)  # what begins at none can be seen to rise
    recorder.recording = evolve(recorder.recording, counts=metering)
    of_run = recorder.rows or followed(recorder, rows.Rows(lambda _: None, lambda _: False))
    recorder.hear(counting.RunCounts(metering, of_run).listen, counting.HEARD)


def followed(recorder: Recorder, of_run: rows.Rows) -> rows.Rows:
    """The rows of a run, which spans and metrics are made of."""
    recorder.rows = of_run
    recorder.hear(of_run.listen, rows.HEARD)
    return of_run


def _sends(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() != "none"
