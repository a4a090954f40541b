"""Which metrics there are, by what they are told apart, and what they count."""

import pytest
import trio

from tests.checkpoint.world import world
from tests.telemetry.told import Told
from triocollect.events import (
    CheckpointEnded,
    Restored,
    RetiredRows,
    RowFailed,
    RowRetried,
    RowSent,
    RowSucceeded,
    RunStarted,
)
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.protocol.messages import Blocker
from triocollect.protocol.refusals import Code
from triocollect.servers.replies import refusal
from triocollect.telemetry import count
from triocollect.telemetry.here import record
from triocollect.telemetry.metrics import INSTRUMENTS

GOLDEN = """
triocollect.rows.sent counter {row}
triocollect.rows.retried counter {row}
triocollect.rows.ended counter {row} outcome
triocollect.rows.in_flight gauge {row}
triocollect.rows.queued gauge {row}
triocollect.rows.continued counter {row}
triocollect.rows.restarted counter {row}
triocollect.rows.retired counter {row}
triocollect.checkpoints counter {checkpoint} outcome
triocollect.checkpoint.phase histogram s phase
triocollect.checkpoint.size histogram By
triocollect.checkpoint.rows counter {row} fate
triocollect.checkpoint.blockers counter {blocker}
triocollect.checkpoint.calls counter {call} fate
triocollect.leases.expired counter {lease}
triocollect.refusals counter {refusal} code
"""  # names are an interface: somebody's dashboards and alarms have them


@pytest.fixture
def told():
    one = Told()
    yield one
    one.recorder.close(5.0)


def hear(told, *events):
    for event in events:
        told.recorder.listen(event)


def episode(task, attempt=0):
    return EpisodeId(f"{task}-0", attempt)


def test_the_names_and_what_they_are_told_apart_by_stay_what_they_are():
    lines = [
        " ".join((f"triocollect.{one.name}", one.kind, one.unit, *one.attributes)) for one in INSTRUMENTS
    ]
    assert lines == GOLDEN.split("\n")[1:-1]


def test_rows_are_counted_by_how_they_ended_and_none_by_its_name(told):
    hear(told, RunStarted(run="r", expected=5, done=1, given_up=0, concurrency=4))
    for task in range(3):
        hear(told, RowSent(RowKey(task, 0), episode(task), "a"))
    hear(told, RowSucceeded(RowKey(0, 0), episode(0), "a", 1.0, 1.0))
    hear(told, RowRetried(RowKey(1, 0), episode(1), "no reply", 1.0))
    hear(told, RowFailed(RowKey(2, 0), episode(2), "a", "agent_run_error", "no", 1.0))
    found = told.metrics()
    assert found["triocollect.rows.sent", ()] == 3
    assert found["triocollect.rows.retried", ()] == 1
    assert found["triocollect.rows.ended", (("outcome", "succeeded"),)] == 1
    assert found["triocollect.rows.ended", (("outcome", "failed"),)] == 1
    assert found["triocollect.rows.in_flight", ()] == 0
    assert found["triocollect.rows.queued", ()] == 2
    allowed = {f"triocollect.{one.name}": set(one.attributes) for one in INSTRUMENTS}
    assert all({name for name, _ in attributes} <= allowed[metric] for metric, attributes in found)


def test_a_start_counts_what_it_continues_and_what_begins_anew(told):
    hear(told, Restored(1, "c1", ((episode(0), episode(0, 1)),), 2), RetiredRows(2, 2))
    found = told.metrics()
    assert found["triocollect.rows.continued", ()] == 1
    assert found["triocollect.rows.restarted", ()] == 2
    assert found["triocollect.rows.retired", ()] == 2


def test_a_checkpoint_counts_calls_as_model_servers_name_them_and_blockers_at_its_deadline(told):
    blockers = (Blocker("3-0", "a tool is under way"),)
    failed = CheckpointOutcome(
        operation=1,
        checkpoint_id="c1",
        published=False,
        phases_s={"prepare": 3.0},
        blockers=blockers,
        blocker_count=300,  # of which one is named
    )
    calls_of_all = {"cut": 5, "not_cut": 1, "held": 2, "undelivered": 8, "of somebody": 9}
    hear(told, CheckpointEnded(failed, (), calls_of_all))
    found = told.metrics()
    assert found["triocollect.checkpoints", (("outcome", "not_published"),)] == 1
    assert found["triocollect.checkpoint.blockers", ()] == 300
    assert found["triocollect.checkpoint.phase", (("phase", "prepare"),)] == 1
    calls = {
        attributes[0][1]: value for (name, attributes), value in found.items() if name.endswith(".calls")
    }
    assert calls == {"cut": 5, "not_cut": 1, "held": 2}


async def test_a_checkpoint_that_is_published_tells_its_size_and_what_each_phase_took(
    tmp_path, autojump_clock, told
):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.take()
        hear(told, *here.events)
    found = told.metrics()
    assert found["triocollect.checkpoints", (("outcome", "published"),)] == 1
    assert found["triocollect.checkpoint.size", ()] == 1
    assert found["triocollect.checkpoint.rows", (("fate", "continued"),)] == 1
    phases = {attributes[0][1] for name, attributes in found if name == "triocollect.checkpoint.phase"}
    assert {"prepare", "commit", "publish", "resume"} <= phases


async def test_a_server_counts_leases_that_ended_and_requests_that_it_refused(tmp_path, autojump_clock, told):
    with record(told.recorder.recording):
        async with world(tmp_path) as here:
            here.fly(0, busy="environment")
            here.servers["model"].admission.close()
            here.servers["model"].admission.lease.heard(0.0, 0, 1000)
            await trio.sleep(2)
            here.servers["model"].admission.end_expired_lease()
    assert told.metrics()["triocollect.leases.expired", ()] == 1


def test_a_refusal_is_counted_by_its_code_and_not_by_its_words(told):
    with record(told.recorder.recording):
        for detail in ("rollout 3-0 is under way already", "rollout 4-0 is under way already"):
            refusal(Code.DUPLICATE_ATTEMPT, detail)
    assert told.metrics()["triocollect.refusals", (("code", "duplicate_attempt"),)] == 2


def test_where_nobody_records_nothing_is_counted():
    count("refusals", code="busy")
