"""Restore: all or nothing, into fresh processes only."""

import anyio
import pytest

from tests.participant.harness import ONE, TWO, commit, inline, participant, retire
from triocollect.participant import EpisodeId


async def saved(root, operation=1):
    """A checkpoint of two counts: what its commit answered."""
    async with participant(root) as caller:
        await caller.add(ONE, 3)
        await caller.add(TWO, 5)
        return await caller.committed(operation, ONE, TWO)


async def test_a_server_that_has_served_is_not_restored_into(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        await caller.add(EpisodeId("other"))
        fields = caller.installing(1, cut, one=1)
        assert await caller.refused("restore", 1, **fields) == "not_fresh"
        assert await caller.phase() == "open"
        await caller.ok("retire", 1, **retire(EpisodeId("one", 1)))


async def test_restored_state_nobody_claimed_is_replaced_by_the_next_restore(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        await caller.ok("restore", 1, **caller.installing(1, cut, one=1, two=1))
        await caller.ok("resume", 1)
        await caller.ok("restore", 2, **caller.installing(1, cut, one=2), epoch=2)
        assert caller.counts.counts == {EpisodeId("one", 2): 3}


async def test_installing_an_attempt_refuses_all_before_it_and_not_itself(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        await caller.ok("restore", 1, **caller.installing(1, cut, one=4))
        await caller.ok("resume", 1)
        refused = await caller.add(EpisodeId("one", 3))
        assert (refused["code"], refused["retired_through"]) == ("stale_attempt", 3)
        assert await caller.add(EpisodeId("one", 4)) == 4


async def test_a_restore_repeated_answers_the_same_and_with_other_arguments_conflicts(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        fields = caller.installing(1, cut, one=1)
        first = await caller.ok("restore", 1, **fields)
        assert await caller.ok("restore", 1, **fields, budget_ms=1) == first
        assert caller.counts.heard.count("install") == 1
        other = caller.installing(1, cut, one=2)
        assert await caller.refused("restore", 1, **other) == "checkpoint_conflict"


async def test_damaged_records_are_noticed_before_anything_is_installed(tmp_path):
    cut = await saved(tmp_path)
    records = next(tmp_path.rglob("records-*"))
    records.write_bytes(records.read_bytes().replace(b'"state":3', b'"state":4'))
    async with participant(tmp_path) as caller:
        status, body = await caller.post("restore", 1, **caller.installing(1, cut, one=1))
        assert (status, body["code"], body["phase"]) == (422, "invalid_state", "open")
        assert "digest" in body["detail"]
        assert "install" not in caller.counts.heard


async def test_another_manifest_than_the_one_named_is_refused(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        fields = {**caller.installing(1, cut, one=1), "manifest_sha256": "0" * 64}
        assert await caller.refused("restore", 1, **fields) == "invalid_state"
        fields = {**caller.installing(1, cut, one=1), "checkpoint_id": "another"}
        assert await caller.refused("restore", 2, **fields) == "invalid_state"


async def test_a_failed_restore_leaves_nothing_installed_and_everyone_open(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        caller.counts.fails["install"] = RuntimeError("no room")
        fields = caller.installing(1, cut, one=1, two=1)
        assert await caller.refused("restore", 1, **fields) == "coordinator_unavailable"
        assert (await caller.status())["restored_pending"] == 0
        assert await caller.phase() == "open"
        caller.counts.fails.clear()
        await caller.ok("retire", 1, **retire(EpisodeId("one", 1), EpisodeId("two", 1)))
        await caller.ok("resume", 1)
        assert (await caller.add(EpisodeId("one", 1)))["code"] == "stale_attempt"
        assert await caller.add(EpisodeId("one", 2)) == 1


async def test_what_was_installed_is_retired_with_the_restores_own_operation(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        await caller.ok("restore", 1, **caller.installing(1, cut, one=1, two=1))
        assert await caller.refused("retire", 2, **retire(EpisodeId("one", 1))) == "invalid_phase"
        await caller.ok("retire", 1, **retire(EpisodeId("one", 1)))
        await caller.ok("retire", 1, **retire(EpisodeId("two", 1)))
        assert caller.counts.counts == {}
        assert (await caller.ok("resume", 1))["phase"] == "open"


async def test_an_install_outlives_its_deadline_and_the_retry_gets_its_answer(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path, in_thread=inline) as caller:
        caller.counts.install_waits = anyio.Event()
        fields = caller.installing(1, cut, one=1)
        assert await caller.refused("restore", 1, **fields, budget_ms=0) == "deadline_exceeded"
        assert await caller.phase() == "restoring"
        caller.counts.install_waits.set()
        assert (await caller.ok("restore", 1, **fields))["installed"] == ["one-a1"]
        assert caller.counts.heard.count("install") == 1


@pytest.mark.parametrize("verb", ["resume", "retire", "prepare", "hello"])
async def test_nothing_opens_before_an_install_under_way_has_ended(tmp_path, verb):
    cut = await saved(tmp_path)
    async with participant(tmp_path, in_thread=inline) as caller:
        caller.counts.install_waits = anyio.Event()
        fields = caller.installing(1, cut, one=1)
        await caller.refused("restore", 1, **fields, budget_ms=0)
        await anyio.wait_all_tasks_blocked()
        call = {
            "resume": {"operation": 1},
            "retire": {"operation": 1, **retire(EpisodeId("one", 1))},
            "prepare": {"operation": 2},
            "hello": {"operation": 0, "epoch": 2},
        }[verb]
        assert await caller.refused(verb, **call, budget_ms=0) == "deadline_exceeded"
        assert caller.counts.admission.closed
        caller.counts.install_waits.set()
        await caller.ok(verb, **call)
        assert caller.counts.counts == {}, "nobody wants what was installed"
        opened = {"resume": "open", "retire": "restored", "prepare": "prepared", "hello": "open"}
        assert await caller.phase() == opened[verb]


async def test_a_lease_that_ends_during_an_install_opens_when_that_has_ended(tmp_path, autojump_clock):
    async def with_a_disk(root):
        async with participant(root, in_thread=inline) as caller:
            await caller.add(ONE, 3)
            return await caller.committed(1, ONE)

    cut = await with_a_disk(tmp_path)
    async with participant(tmp_path, in_thread=inline) as caller:
        caller.counts.install_waits = anyio.Event()
        fields = caller.installing(1, cut, one=1)
        await caller.refused("restore", 1, **fields, budget_ms=0, lease_ms=1_000)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.add, TWO)
            await anyio.sleep(100)
            assert caller.counts.counts == {}
            assert await caller.phase() == "restoring"
            caller.counts.install_waits.set()
        assert caller.counts.counts == {TWO: 1}


async def test_a_commit_drops_restored_state_outside_its_scope_and_refuses_nothing_for_it(tmp_path):
    cut = await saved(tmp_path)
    async with participant(tmp_path) as caller:
        await caller.ok("restore", 1, **caller.installing(1, cut, one=1, two=1))
        await caller.ok("resume", 1)
        kept = EpisodeId("one", 1)
        assert (await caller.committed(2, kept))["exported"] == ["one-a1"]
        assert caller.counts.counts == {kept: 3}
        await caller.ok("resume", 2)
        assert await caller.add(EpisodeId("two", 1)) == 1


async def test_a_commit_that_was_ended_while_it_published_drops_nothing(tmp_path):
    published = anyio.Event()

    async def slow_disk(work):
        done = work()
        await published.wait()
        return done

    cut = await saved(tmp_path)
    async with participant(tmp_path, in_thread=slow_disk) as caller:
        published.set()
        await caller.ok("restore", 1, **caller.installing(1, cut, one=1, two=1))
        await caller.ok("resume", 1)
        published = anyio.Event()
        await caller.ok("prepare", 2)
        await caller.refused("commit", 2, **commit(2), budget_ms=0)
        await anyio.wait_all_tasks_blocked()
        await caller.refused("resume", 2, budget_ms=0)
        published.set()
        await caller.ok("resume", 2)
        assert (await caller.status())["restored_pending"] == 2
