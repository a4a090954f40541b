"""Spans wait for their store in a thread of its own: none is lost on the way, no row waits for one."""

import threading

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from triocollect.telemetry.made import Sort, Span, Stand
from triocollect.telemetry.sending import Batches, Pace


class Store:
    """Takes what is posted, when it is let."""

    status_code = 200

    def __init__(self):
        self.names, self.requests = [], 0
        self.busy, self.let = threading.Event(), threading.Event()
        self.meanwhile = lambda: None

    def __call__(self, data):
        self.busy.set()
        self.let.wait()
        self.requests += 1
        self.meanwhile()
        whole = ExportTraceServiceRequest.FromString(data)
        self.names += [span.name for span in whole.resource_spans[0].scope_spans[0].spans]
        return self


@pytest.fixture
def store():
    return Store()


def span(name):
    return Span(Sort(name, "internal", {}), Stand(b"t" * 16, b"s" * 8), None, 1, 2, {})


def batches(store, *, every_s=0.001, at_once=100, most=1_000_000, complain=pytest.fail):
    return Batches(store, {}, complain, Pace(every_s, at_once, most))


def test_every_span_comes_once_and_in_order_however_often_they_are_sent(store):
    store.let.set()
    sending = batches(store, every_s=1e-6)
    names = [str(number) for number in range(20_000)]
    for name in names:
        sending.give((span(name),))
    sending.close()
    assert store.names == names


def test_many_that_wait_are_sent_some_at_a_time(store):
    sending = batches(store, at_once=10)
    sending.give((span("first"),))
    assert store.busy.wait(60)
    sending.give(tuple(map(span, map(str, range(25)))))
    store.let.set()
    sending.close()
    assert store.requests == 4
    assert len(store.names) == 26


def test_what_comes_while_a_request_is_under_way_makes_none_of_its_own(store):
    store.let.set()
    sending = batches(store, every_s=3600, at_once=5)
    store.meanwhile = lambda: sending.give((span("meanwhile"),)) if store.requests < 20 else None
    for number in range(5):
        sending.give((span(str(number)),))
    assert store.busy.wait(60)
    sending.close()
    assert store.requests <= 3, "when there were enough, and at the end"


def test_a_store_that_takes_nothing_keeps_nobody_waiting_and_little_memory_and_it_is_told_what_is_lost(store):
    told = []
    sending = batches(store, at_once=1, most=10, complain=told.append)
    sending.give((span("first"),))
    assert store.busy.wait(60)
    for number in range(1000):
        sending.give((span(str(number)),))
    store.let.set()
    sending.close()
    assert store.names == ["first", *map(str, range(10))]
    assert told == [
        "spans of 990 rows, or of other work, are lost: the store takes them more slowly than they come"
    ]


def test_a_span_that_cannot_be_written_down_is_told_of_and_the_others_are_sent(store):
    told = []
    store.let.set()
    sending = batches(store, complain=told.append)
    sending.give((span("before"),))
    sending.give((replace(span("it began before all time"), began=-1),))
    sending.give((span("after"),))
    sending.close()
    assert store.names == ["before", "after"]
    [words] = told
    assert words.startswith("a span cannot be written down: error: ")


def test_a_request_that_fails_in_some_new_way_is_told_of_and_the_next_one_is_sent(store):
    told = []
    store.let.set()
    store.meanwhile = lambda: 1 / 0 if store.requests == 1 else None
    sending = batches(store, at_once=1, complain=told.append)
    sending.give((span("before"),))
    sending.give((span("after"),))
    sending.close()
    assert store.names == ["after"]
    assert told == ["a request cannot be sent: ZeroDivisionError: division by zero"]
