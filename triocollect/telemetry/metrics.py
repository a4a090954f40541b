"""Metrics: one table of instruments. No attribute has more than a few dozen values, whatever a run holds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation


class Instrument(NamedTuple):
    """One metric. `attributes` are all that it is ever told apart by."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    about: str
    attributes: tuple[str, ...] = ()


INSTRUMENTS: Final = (
    Instrument("rows.sent", "counter", "{row}", "Sends of rows, repeated ones too."),
    Instrument("rows.retried", "counter", "{row}", "Sends without a reply, after which a row is sent again."),
    Instrument("rows.ended", "counter", "{row}", "Rows that had their last word of this run.", ("outcome",)),
    Instrument("rows.in_flight", "gauge", "{row}", "Rows that were sent and not answered yet."),
    Instrument("rows.queued", "gauge", "{row}", "Rows of this run that are neither ended nor in flight."),
    Instrument("rows.continued", "counter", "{row}", "Rows that a start continued from a checkpoint."),
    Instrument("rows.restarted", "counter", "{row}", "Rows under way before a start that began anew."),
    Instrument("rows.retired", "counter", "{row}", "Attempts that were stopped and refused everywhere."),
    Instrument("checkpoints", "counter", "{checkpoint}", "Checkpoints that were tried.", ("outcome",)),
    Instrument("checkpoint.phase", "histogram", "s", "How long a phase of a checkpoint took.", ("phase",)),
    Instrument("checkpoint.size", "histogram", "By", "Records of a checkpoint that was published."),
    Instrument("checkpoint.rows", "counter", "{row}", "Rows in flight at a checkpoint.", ("fate",)),
    Instrument("checkpoint.blockers", "counter", "{blocker}", "What kept a checkpoint, at its deadline."),
    Instrument("checkpoint.calls", "counter", "{call}", "Policy calls under way at a cut.", ("fate",)),
    Instrument("leases.expired", "counter", "{lease}", "Times a closed server opened by itself."),
    Instrument("refusals", "counter", "{refusal}", "Requests that were refused.", ("code",)),
)
PREFIX: Final = "triocollect."

_Key: TypeAlias = tuple[tuple[str, str], ...]


class Metering:
    """See `here.Counts`. Counts are kept here, for a run makes many, and told when the SDK asks for them."""

    def __init__(self, meter: Meter) -> None:
        self._counts: Final[dict[str, dict[_Key, float]]] = {}
        self._gauges: Final[dict[str, Callable[[], float]]] = {}
        self._histograms: Final[dict[str, Histogram]] = {}
        for one in INSTRUMENTS:
            self._make(meter, one)

    def add(self, name: str, by: float, attributes: Mapping[str, str]) -> None:
        """More of a counter, or a value for a histogram. Raises KeyError for what the table has not."""
        if (counts := self._counts.get(name)) is None:
            self._histograms[name].record(by, dict(attributes))
            return
        key = tuple(attributes.items())
        counts[key] = counts.get(key, 0) + by

    def watch(self, name: str, value: Callable[[], float]) -> None:
        """A gauge shows this from now on. It is asked from another thread."""
        self._gauges[name] = value

    def _make(self, meter: Meter, one: Instrument) -> None:
        name, unit, about = PREFIX + one.name, one.unit, one.about
        match one.kind:
            case "counter":
                self._counts[one.name] = {} if one.attributes else {(): 0}
                meter.create_observable_counter(name, [self._counter(one.name)], unit, about)
            case "gauge":
                meter.create_observable_gauge(name, [self._gauge(one.name)], unit, about)
            case "histogram":
                self._histograms[one.name] = meter.create_histogram(name, unit, about)

    def _counter(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        counts = self._counts[name]
        return lambda _: [Observation(value, dict(key)) for key, value in counts.copy().items()]

    def _gauge(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(self._gauges[name]())] if name in self._gauges else []
