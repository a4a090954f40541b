"""A rollout has one trace over all allocations; a checkpoint says what each phase and participant took."""

import pytest
from opentelemetry.trace import StatusCode

from tests.checkpoint.world import world
from tests.telemetry.told import Told
from triocollect.errors import CheckpointError
from triocollect.events import Restored, RowFailed, RowLeft, RowRetried, RowSent, RowSucceeded, RunStarted
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.telemetry import begin_run, carried, span
from triocollect.telemetry.here import record, served

KEY = RowKey(3, 0)


def attempt(number):
    return EpisodeId("3-0", number)


@pytest.fixture
def told():
    one = Told()
    yield one
    one.recorder.close(5.0)


def started(run="r1"):
    return RunStarted(run=run, expected=1, done=0, given_up=0, concurrency=1)


def hear(told, *events):
    for event in events:
        told.recorder.listen(event)


def a_life(*events, run="r1"):
    """What an allocation tells, from its start to its end."""
    told = Told()
    hear(told, *(event for event in events if isinstance(event, Restored)), started(run))
    hear(told, *(event for event in events if not isinstance(event, Restored)))
    headers = dict(told.recorder.headers(KEY))
    told.recorder.close(5.0)
    return told, headers.get(b"traceparent", b"").decode()


def ids(span):
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def test_an_attempt_that_continues_another_is_in_its_trace_and_linked_to_it_over_two_allocations():
    first, sent_first = a_life(RowSent(KEY, attempt(0), "a"))
    restored = Restored(1, "c1", ((attempt(0), attempt(1)),), 0)
    done = RowSucceeded(KEY, attempt(1), "a", 1.0, 2.0)
    second, _ = a_life(restored, RowSent(KEY, attempt(1), "a"), done)
    [cut], [went_on] = first.named("attempt"), second.named("attempt")
    assert ids(cut) == sent_first, "servers are told of the span that is sent to the store"
    assert cut.attributes["triocollect.outcome"] == "cut"
    assert went_on.attributes == {"triocollect.attempt": 1, "triocollect.outcome": "succeeded"}
    [link] = went_on.links
    assert link.context == cut.get_span_context()
    rows = [*first.named("row"), *second.named("row")]
    traces = {span.get_span_context().trace_id for span in (cut, went_on, *rows)}
    assert len(traces) == 1
    assert [cut.parent, went_on.parent] == [row.get_span_context() for row in rows]
    assert rows[0].get_span_context().span_id != rows[1].get_span_context().span_id


def test_other_rollouts_and_other_runs_have_other_traces():
    key, other = RowKey(4, 0), EpisodeId("4-0", 0)
    one, _ = a_life(RowSent(KEY, attempt(0), "a"), RowSent(key, other, "a"))
    two, _ = a_life(RowSent(KEY, attempt(0), "a"), run="r2")
    traces = {span.get_span_context().trace_id for told in (one, two) for span in told.named("row")}
    assert len(traces) == 3


def test_every_send_of_a_row_is_an_attempt_below_it_and_says_how_it_ended(told):
    hear(told, started(), RowSent(KEY, attempt(0), "a"), RowRetried(KEY, attempt(0), "no reply", 1.0))
    hear(told, RowSent(KEY, attempt(1), "a"), RowFailed(KEY, attempt(1), "a", "agent_run_error", "no", 1.0))
    [row] = told.named("row")
    assert [child.attributes["triocollect.outcome"] for child in told.below(row)] == ["retried", "failed"]
    assert [child.attributes["triocollect.attempt"] for child in told.below(row)] == [0, 1]
    assert row.status.status_code is StatusCode.ERROR
    assert row.status.description == "agent_run_error"
    assert not any(child.links for child in told.below(row)), "it continues nothing"


def test_an_attempt_of_which_nothing_ran_and_that_is_sent_again_is_one_span(told):
    hear(told, started(), RowSent(KEY, attempt(0), "a"), RowRetried(KEY, attempt(0), "refused", 1.0))
    hear(told, RowSent(KEY, attempt(0), "a"), RowSucceeded(KEY, attempt(0), "a", 1.0, 1.0))
    [sent] = told.named("attempt")
    assert sent.attributes["triocollect.outcome"] == "succeeded"
    assert sent.status.status_code is StatusCode.UNSET


def test_a_row_that_was_never_sent_has_no_span(told):
    hear(told, started(), RowLeft(KEY, "the dispatch budget is spent"))
    assert told.spans == ()


def test_a_rollout_that_is_not_sampled_is_told_to_servers_as_such_and_kept_nowhere(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    told, sent = a_life(RowSent(KEY, attempt(0), "a"))
    assert told.spans == ()
    assert sent.endswith("-00")


async def test_a_checkpoint_has_a_child_for_each_phase_and_these_one_for_each_participant(
    tmp_path, autojump_clock, told
):
    with record(told.recorder.recording):
        begin_run("r1")
        async with world(tmp_path) as here:
            here.fly(0)
            await here.take()
    told.recorder.close(5.0)
    [run], [checkpoint] = told.named("run"), told.named("checkpoint")
    assert checkpoint in told.below(run)
    assert checkpoint.attributes == {"triocollect.why": "signal", "triocollect.operation": 1}
    phases = {span.name.removeprefix("checkpoint."): span for span in told.below(checkpoint)}
    order = "begin prepare commit replies confirm sync publish prune resume"
    assert list(phases) == order.split()
    for phase in ("prepare", "commit", "resume"):
        calls = told.below(phases[phase])
        assert {call.name for call in calls} == {f"control.{phase}"}
        assert {call.attributes["triocollect.kind"] for call in calls} == set(here.servers)
    assert len({span.get_span_context().trace_id for span in told.spans}) == 1


async def test_attempts_that_are_retired_are_a_span_of_their_own(tmp_path, autojump_clock, told):
    async with world(tmp_path) as here:
        with record(told.recorder.recording):
            await here.coordination.retire([attempt(0)])
    [retire] = told.named("retire")
    assert retire.attributes["triocollect.attempts"] == 1
    assert {call.name for call in told.below(retire)} == {"control.retire"}


async def test_what_goes_wrong_ends_a_span_as_an_error_with_its_words(told):
    with record(told.recorder.recording), pytest.raises(CheckpointError), span("restore"):
        raise CheckpointError("the folder is empty")
    [restore] = told.named("restore")
    assert restore.status.status_code is StatusCode.ERROR
    assert "the folder is empty" in restore.status.description


def test_a_server_goes_on_with_the_trace_of_its_caller_and_tells_the_next_one(told):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with record(told.recorder.recording):
        assert carried() == {}
        with served("POST /run", {"traceparent": parent}, {"a": 1}):
            passed_on = carried()["traceparent"]
        with served("POST /run", {"traceparent": "rubbish"}, {}):
            pass
    joined, alone = told.spans
    assert joined.parent.span_id == 0xB7AD6B7169203331
    assert passed_on == ids(joined)
    assert alone.parent is None


def test_where_nobody_records_nothing_is_said():
    with span("anything", "client", kind="model"):
        assert carried() == {}
    begin_run("r1")
