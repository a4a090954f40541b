"""What a recorder was told, kept in memory."""

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from triocollect.telemetry.exporting import Exporting, meter, trace
from triocollect.telemetry.recorder import Recorder
from triocollect.telemetry.sending import given_to


class Told:
    """A recorder of spans and metrics, and what came of them."""

    def __init__(self):
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        exporting = Exporting("triocollect", "collector", lambda text: None)
        self.recorder = Recorder(tell=lambda text: None, exporting=exporting)
        trace(self.recorder, given_to(SimpleSpanProcessor(self._spans), exporting.resource))
        meter(self.recorder, exporting.meter([self._metrics]))

    @property
    def spans(self):
        """Those that have ended."""
        return self._spans.get_finished_spans()

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def below(self, span):
        """The names of its children, in the order of their ends."""
        mine = span.get_span_context().span_id
        return [child for child in self.spans if child.parent is not None and child.parent.span_id == mine]

    def metrics(self):
        """(name, attributes) -> value; of a histogram, how many there were."""
        found = {}
        data = self._metrics.get_metrics_data()
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        key = (metric.name, tuple(sorted(point.attributes.items())))
                        found[key] = getattr(point, "count", None) or getattr(point, "value", 0)
        return found
