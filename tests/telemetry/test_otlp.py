"""The bytes that a store gets are those of the library's own encoder, for whatever a span can hold."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource

from triocollect.protocol.ids import EpisodeId
from triocollect.telemetry.made import Sort, Span, Stand, stand_of
from triocollect.telemetry.otlp import encoded, request
from triocollect.telemetry.row import Row
from triocollect.telemetry.sending import SCOPE, readable
from triocollect.version import VERSION

RESOURCE = Resource(
    {
        "service.name": "triocollect",
        "service.instance.id": "collector@host:1",
        "process.command_args": ["triocollect", "run"],  # a detector's
        "host.cpus": (0, 1),
        "nothing": (),
    }
)

# Half a surrogate pair is no Unicode, which the library cannot encode at all.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
names = st.text("abc._", min_size=1, max_size=20)
nanoseconds = st.integers(0, 2**63)
stands = st.builds(
    Stand,
    trace=st.binary(min_size=16, max_size=16).filter(any),
    span=st.binary(min_size=8, max_size=8).filter(any),
    remote=st.booleans(),
)
values = st.one_of(texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
attributes = st.dictionaries(names, values, max_size=4)
spans = st.builds(
    Span,
    sort=st.builds(
        Sort, name=texts, kind=st.sampled_from(["internal", "server", "client"]), about=attributes
    ),
    at=st.builds(lambda at: msgspec.structs.replace(at, remote=False), stands),
    parent=st.none() | stands,
    began=nanoseconds,
    ended=nanoseconds,
    about=st.dictionaries(names.map("own.{}".format), values, max_size=4),
    links=st.lists(stands, max_size=3).map(tuple),
    fault=st.none() | texts,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(spans, min_size=1, max_size=3))
def test_they_are_read_as_the_same_spans(made):
    ours = ExportTraceServiceRequest.FromString(
        request(RESOURCE.attributes, (SCOPE, VERSION), list(map(encoded, made)))
    )
    assert ours == encode_spans([readable(span, RESOURCE) for span in made])


def test_text_that_is_no_unicode_costs_no_span():
    span = Span(
        Sort("row", "internal", {}), Stand(b"t" * 16, b"s" * 8), None, 1, 2, {"a": "\ud800"}, (), "\ud800"
    )
    whole = ExportTraceServiceRequest.FromString(request({}, (SCOPE, VERSION), [encoded(span)]))
    [found] = whole.resource_spans[0].scope_spans[0].spans
    assert (found.attributes[0].value.string_value, found.status.message) == ("?", "?")


def test_a_caller_is_understood_as_it_is_written_down_and_rubbish_is_nobody():
    said = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    stand = stand_of({"traceparent": said, "tracestate": "vendor=1"})
    assert stand is not None
    assert msgspec.structs.replace(stand, remote=False).headers == {
        "traceparent": said,
        "tracestate": "vendor=1",
    }
    assert stand_of({"traceparent": said[:-1] + "0"}).sampled is False
    assert stand_of({"traceparent": f"cc{said[2:]}-what comes one day"}) is not None
    for wrong in (
        "",
        "00",
        said.upper(),
        f"ff{said[2:]}",
        said.replace("b7ad6b7169203331", "0" * 16),
        said + "x",
    ):
        assert stand_of({"traceparent": wrong}) is None
    assert stand_of({"traceparent": said, "tracestate": "v" * 513}).state == ""


episodes = st.builds(EpisodeId, st.text(max_size=300), st.integers(0, 10**9))  # surrogates, too
rows = st.builds(
    Row,
    trace=st.binary(min_size=16, max_size=16),
    sampled=st.booleans(),
    first=st.integers(0, 10**9),
    began=nanoseconds,
    episode=episodes,
    attempt_began=nanoseconds,
    continues=st.none() | episodes,
    retried=st.none() | st.tuples(texts, nanoseconds),
    ended=nanoseconds,
    outcome=st.sampled_from(["succeeded", "failed", "left", "cut"]),
    fault=st.none() | texts,
    links=st.lists(stands, max_size=1).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(rows)
def test_a_row_is_in_the_bytes_of_its_spans_whatever_became_of_it(row):
    assert row.encoded() == list(map(encoded, row))
