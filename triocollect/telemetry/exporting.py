"""Sets the SDK up: who sends spans and metrics where. Imported only where somebody wants that.

Everything is sent by threads of its own, which end with the process at the latest. Where it goes is said by
the standard OTEL_* variables: endpoint, headers, timeout, compression, certificates, sampler, resource.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final
from wsgiref.simple_server import WSGIServer

from attrs import evolve
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry, start_http_server

from triocollect.config.settings import TelemetryConfig
from triocollect.errors import UsageError
from triocollect.telemetry.complaints import Complaints
from triocollect.telemetry.counting import RunCounts
from triocollect.telemetry.metrics import Metering
from triocollect.telemetry.recorder import Recorder
from triocollect.telemetry.rows import RowSpans
from triocollect.telemetry.spans import RunIds, Tracing
from triocollect.version import VERSION

PROTOCOL: Final = "http/protobuf"
QUEUED_SPANS: Final = 1 << 14  # thousands of rows may end at once; some 25 MB where nothing takes them
EVERY_MS: Final = 1000.0  # spans are sent so often, unless OTEL_BSP_SCHEDULE_DELAY says otherwise
AFTER_A_COMPLAINT_S: Final = 0.3  # who does not answer gets no more than this at the end
LOOK_S: Final = 0.01


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


class Exporting:
    """The providers of this process, until they are closed."""

    def __init__(self, service: str, instance: str, tell: Callable[[str], None]) -> None:
        self.resource: Final = resource_of(service, instance)
        self._complaints: Final = Complaints(tell)
        self._closings: Final[list[Callable[[], None]]] = []

    def batches(self) -> SpanProcessor:
        """Sends spans by OTLP, some at a time."""
        every = EVERY_MS if "OTEL_BSP_SCHEDULE_DELAY" not in os.environ else None
        most = QUEUED_SPANS if "OTEL_BSP_MAX_QUEUE_SIZE" not in os.environ else None
        processor = BatchSpanProcessor(OTLPSpanExporter(), most, every)
        self._closings.append(processor.shutdown)
        return processor

    def scraped(self, address: str) -> MetricReader:
        """Serves metrics at HOST:PORT. Raises UsageError where it cannot listen there."""
        host, _, port = address.rpartition(":")
        registry = CollectorRegistry()
        try:
            server, _ = start_http_server(int(port), host.strip("[]"), registry)
        except (OSError, OverflowError) as error:
            raise UsageError(f"--prometheus {address}: cannot listen there: {error}") from error
        self._closings.append(lambda: _end(server))
        return PrometheusMetricReader(registry=registry)

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
        self._complaints.close()


def set_up(recorder: Recorder, settings: TelemetryConfig, exporting: Exporting) -> None:
    """Spans and metrics, as they are asked for. Raises UsageError."""
    recorder.exporting = exporting
    readers = [] if settings.prometheus is None else [exporting.scraped(settings.prometheus)]
    if settings.export == "otlp":
        require_protocol()
        if _sends("TRACES"):
            trace(recorder, exporting.resource, exporting.batches())
        if _sends("METRICS"):
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if readers:
        meter(recorder, exporting.meter(readers))


def trace(recorder: Recorder, resource: Resource, processor: SpanProcessor) -> None:
    """Spans, to this processor."""
    ids = RunIds()
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracing = Tracing(provider, ids)
    rows = RowSpans(processor, provider.sampler, resource, tracing.linked)
    recorder.recording = evolve(recorder.recording, spans=tracing)
    recorder.listeners.append(rows.listen)
    recorder.headers = rows.headers
    recorder.endings += [rows.close, tracing.end_run]


def meter(recorder: Recorder, metering: Metering) -> None:
    """Metrics, from this process and from the events of a run."""
    recorder.recording = evolve(recorder.recording, counts=metering)
    recorder.listeners.append(RunCounts(metering).listen)


def _sends(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() != "none"


def _end(server: WSGIServer) -> None:
    server.shutdown()
    server.server_close()
