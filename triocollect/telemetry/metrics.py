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
_NO_ATTRIBUTES: Final[Mapping[str, str]] = {}


class Metering:
    """See `here.Counts`. Counts are kept here, for a run makes many, and told when the SDK asks for them."""

    def __init__(self, meter: Meter) -> None:
        self._counts: Final[dict[str, dict[_Key, float]]] = {}
        self._watched: Final[dict[str, dict[_Key, Callable[[], float]]]] = {}
        self._histograms: Final[dict[str, Histogram]] = {}
        for one in INSTRUMENTS:
            self._make(meter, one)

    def add(self, name: str, by: float, attributes: Mapping[str, str] = _NO_ATTRIBUTES, /) -> None:
        """More of a counter, or a value for a histogram. Raises KeyError for what the table has not."""
        if (counts := self._counts.get(name)) is None:
            self._histograms[name].record(by, dict(attributes))
            return
        key = tuple(attributes.items())
        counts[key] = counts.get(key, 0) + by

    def watch(
        self, name: str, value: Callable[[], float], attributes: Mapping[str, str] = _NO_ATTRIBUTES, /
    ) -> None:
        """A gauge, or a counter that somebody else keeps, shows this from now on."""
        self._watched[name][tuple(attributes.items())] = value

    def _make(self, meter: Meter, one: Instrument) -> None:
        name, unit, about = PREFIX + one.name, one.unit, one.about
        if one.kind == "histogram":
            self._histograms[one.name] = meter.create_histogram(name, unit, about)
            return
        self._counts[one.name], self._watched[one.name] = {}, {}
        make = meter.create_observable_counter if one.kind == "counter" else meter.create_observable_gauge
        make(name, [self._observed(one.name)], unit, about)

    def _observed(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        counts, watched = self._counts[name], self._watched[name]

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            now = counts | {key: value() for key, value in watched.copy().items()}
            return [Observation(value, dict(key)) for key, value in now.items()]

        return observe
