import json

import anyio
import pytest

from tests.participant.counts import Counts
from tests.participant.harness import ONE, RUN, TOKEN, TWO, Caller, commit, participant, retire
from triocollect.errors import UsageError
from triocollect.participant import Admission, ControlPlane, EpisodeId


async def test_a_count_goes_on_in_another_process_as_the_next_attempt(tmp_path):
    async with participant(tmp_path) as old:
        await old.add(ONE, 3)
        await old.add(TWO, 5)
        cut = await old.committed(1, ONE, TWO)
        assert cut["exported"] == ["one", "two"]
        assert cut["manifest"]["path"] == "ckpt-000001/participants/resources/counts/manifest.json"
        assert cut["manifest"]["record_count"] == 2
    async with participant(tmp_path) as new:
        restored = await new.ok("restore", 1, **new.installing(1, cut, one=1, two=4))
        assert restored == {"boot": restored["boot"], "phase": "restored", "installed": ["one-a1", "two-a4"]}
        assert (await new.ok("resume", 1))["phase"] == "open"
        assert (await new.status())["restored_pending"] == 2
        assert await new.add(EpisodeId("one", 1)) == 4
        assert await new.add(EpisodeId("two", 4)) == 6
        assert (await new.status())["restored_pending"] == 0


async def test_only_the_scope_is_exported_and_installed(tmp_path):
    async with participant(tmp_path) as old:
        await old.add(ONE, 3)
        await old.add(TWO, 5)
        assert (await old.committed(1, TWO))["exported"] == ["two"]
        await old.ok("resume", 1)
        cut = await old.committed(2, ONE, TWO)
    async with participant(tmp_path) as new:
        await new.ok("restore", 1, **new.installing(2, cut, two=1))
        assert new.counts.counts == {EpisodeId("two", 1): 5}


async def test_without_the_token_nothing_is_told(tmp_path):
    async with participant(tmp_path) as caller:
        for path in ("status", "capabilities", "nothing"):
            reply = await caller.client.get(
                f"/checkpoint/v1/{path}", headers={"authorization": "Bearer wrong"}
            )
            told = reply.json()["error"]
            assert (reply.status_code, told["code"], told["phase"]) == (401, "unauthorized", None)
        reply = await caller.client.post(
            "/checkpoint/v1/prepare", content=b"{}", headers={"authorization": ""}
        )
        assert reply.status_code == 401
        assert "s3cret" not in reply.text


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("prepare", {"budget_ms": -1}),
        ("prepare", {"epoch": 1 << 53}),
        ("prepare", {"lease_ms": 10**12}),
        ("prepare", {"run": ""}),
        ("prepare", {"epoch": "1"}),
        ("retire", {"episodes": []}),
        ("retire", {"episodes": [{"rollout_id": "x", "attempt": 0}] * 1025}),
        ("retire", {"episodes": [{"rollout_id": "../x", "attempt": 0}]}),
        ("retire", {"episodes": [{"rollout_id": "x", "attempt": -1}]}),
        ("retire", {"episodes": [{"rollout_id": "x", "attempt": 10**9}]}),
        ("commit", {**commit(1), "scope": [{"rollout_id": "x", "attempt": 10**400}]}),
        ("commit", {"checkpoint_id": "c"}),
        ("commit", {**commit(1), "directory": "../elsewhere"}),
        ("commit", {**commit(1), "directory": "/etc"}),
        ("anything", {}),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused_and_changes_nothing(tmp_path, verb, fields):
    async with participant(tmp_path) as caller:
        status, body = await caller.post(verb, 1, **fields)
        assert (status, body["code"], body["phase"]) == (422, "bad_request", "open")
        assert (await caller.status())["epoch"] == 0


async def test_a_body_that_is_no_json_is_refused(tmp_path):
    async with participant(tmp_path) as caller:
        for body in (b"", b"nonsense", b"[" * 100_000):
            reply = await caller.client.post("/checkpoint/v1/prepare", content=body)
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bad_request")


async def test_fields_of_a_later_version_pass(tmp_path):
    async with participant(tmp_path) as caller:
        assert (await caller.ok("prepare", 1, hurry=True))["phase"] == "prepared"


async def test_with_lifespan_off_every_control_call_says_why_it_cannot_be_done(tmp_path):
    admission = Admission()
    counts = Counts(admission)
    caller = Caller(ControlPlane(counts, counts, admission, token=TOKEN, root=tmp_path), counts, tmp_path)
    status, body = await caller.post("prepare", 1)
    assert (status, body["code"]) == (503, "coordinator_unavailable")
    assert "lifespan" in body["detail"]
    assert (await caller.client.get("/checkpoint/v1/status")).status_code == 503
    assert await caller.add(ONE) == 1


def test_a_server_without_a_token_or_with_a_name_for_no_folder_does_not_start(tmp_path):
    admission = Admission()
    counts = Counts(admission)
    with pytest.raises(UsageError, match="token"):
        ControlPlane(counts, counts, admission, token="", root=tmp_path)
    counts.instance = "../counts"
    with pytest.raises(UsageError, match="folder"):
        ControlPlane(counts, counts, admission, token="t", root=tmp_path)


async def test_it_says_what_it_is(tmp_path):
    async with participant(tmp_path) as caller:
        told = (await caller.client.get("/checkpoint/v1/capabilities")).json()
        assert told == {
            "boot": (await caller.status())["boot"],
            "kind": "resources",
            "instance": "counts",
            "protocol": 1,
            "mode": "exported",
            "workers": 1,
            "can_cut": False,
        }


async def test_status_tells_the_operation_the_lease_and_who_blocks(tmp_path):
    async with participant(tmp_path) as caller:
        told = await caller.status()
        assert told == {
            "boot": told["boot"],
            "phase": "open",
            "operation": None,
            "epoch": 0,
            "lease_expires": None,
            "report": None,
            "restored_pending": 0,
            "needed": False,
            "served": False,
        }
        caller.counts.slow = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.add, ONE)
            await anyio.wait_all_tasks_blocked()
            report = (await caller.ok("prepare", 1, budget_ms=0))["report"]
            told = await caller.status()
            assert (told["phase"], told["operation"], told["epoch"], told["served"]) == (
                "preparing",
                1,
                1,
                True,
            )
            assert 0 < told["lease_expires"] <= RUN["lease_ms"]
            assert told["report"] == report
            assert report["blockers"] == [{"key": "one", "why": "an addition is under way"}]
            caller.counts.slow.set()


async def test_a_retired_attempt_is_stopped_freed_and_refused_from_then_on(tmp_path):
    async with participant(tmp_path) as caller:
        caller.counts.slow = anyio.Event()
        answers = []

        async def add():
            answers.append(await caller.add(ONE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await anyio.wait_all_tasks_blocked()
            assert (await caller.ok("retire", 1, **retire(ONE)))["retired"] == ["one"]
        assert answers[0]["code"] == "stale_attempt"
        assert caller.counts.counts == {}
        caller.counts.slow = None
        late = await caller.add(ONE)
        assert (late["code"], late["retired_through"]) == ("stale_attempt", 0)
        assert await caller.add(EpisodeId("one", 1)) == 1


async def test_a_call_that_waits_at_the_door_is_not_let_in_once_its_attempt_is_retired(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.ok("prepare", 1)
        answers = []

        async def add():
            answers.append(await caller.add(ONE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await anyio.wait_all_tasks_blocked()
            caller.counts.admission.marks.retire([ONE])
            await caller.ok("resume", 1)
        assert answers[0]["code"] == "stale_attempt"
        assert caller.counts.counts == {}


async def test_nothing_is_left_of_a_rollout_that_is_forgotten(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(EpisodeId("one", 1))
        await caller.ok("retire", 1, **retire(ONE))
        assert len(caller.counts.admission.marks) == 1
        assert await caller.ok("forget", 2, rollout_ids=["one", "never"]) == {
            "boot": (await caller.status())["boot"],
            "forgotten": ["one", "never"],
        }
        assert caller.counts.counts == {}
        assert len(caller.counts.admission.marks) == 0


async def test_a_hook_that_raises_is_told_and_leaves_the_server_at_work(tmp_path, caplog):
    async with participant(tmp_path) as caller:
        caller.counts.fails["close"] = RuntimeError("no hands")
        status, body = await caller.post("prepare", 1)
        assert (status, body["code"]) == (503, "coordinator_unavailable")
        assert "RuntimeError: no hands" in body["detail"]
        assert await caller.phase() == "open"
        assert await caller.add(ONE) == 1
    assert "a participant's hook failed" in caplog.text


async def test_the_records_are_lines_of_json_with_the_author_s_own_keys(tmp_path):
    async with participant(tmp_path) as caller:
        await caller.add(ONE, 3)
        cut = await caller.committed(1, ONE)
    manifest = tmp_path / cut["manifest"]["path"]
    named = json.loads(manifest.read_bytes())
    assert named["checkpoint_id"] == "c1"
    line = (manifest.parent / named["records"]["path"]).read_text()
    assert json.loads(line) == {
        "rollout_id": "one",
        "attempt": 0,
        "kind": "resources",
        "state": 3,
        "note": "of one",
    }
