"""Several workers behind one port are one participant."""

from collections import Counter
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.participant.counts import Counts
from tests.participant.harness import commit, inline, retire
from tests.participant.workers import EPISODES, Worker, crowd
from triocollect.participant.workers import frames, owner_of
from triocollect.protocol.ids import EpisodeId
from triocollect.telemetry.here import Recording, record
from triocollect.telemetry.logs import whose

KEYS = [episode.capture_key for episode in EPISODES]


def owned(number, size=2):
    """The episodes of a worker."""
    return [one for one in EPISODES if owner_of(one.rollout_id, size) == number]


async def count_all(caller):
    for count, episode in enumerate(EPISODES):
        await caller.add(episode, count)


async def test_a_checkpoint_has_what_every_worker_holds(tmp_path):
    async with crowd(tmp_path, 3) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
        assert sorted(answer["exported"]) == sorted(KEYS)
        assert answer["manifest"]["record_count"] == len(EPISODES)
        assert await caller.phase() == "committed"
        await caller.ok("resume", 1)
        assert not any(worker.admission.closed for worker in caller.workers.values())


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (2, 3)])
async def test_a_checkpoint_is_restored_onto_another_number_of_workers(tmp_path, before, after):
    async with crowd(tmp_path, before) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
    async with crowd(tmp_path, after) as caller:
        told = await caller.ok("restore", 1, **caller.installing(1, answer, **dict.fromkeys(KEYS, 1)))
        assert sorted(told["installed"]) == sorted(f"{key}-a1" for key in KEYS)
        assert (await caller.status())["restored_pending"] == len(EPISODES)
        await caller.ok("resume", 1)
        for count, episode in enumerate(EPISODES):
            assert await caller.add(EpisodeId(episode.rollout_id, 1), 1) == count + 1
        assert (await caller.status())["restored_pending"] == 0
        assert (await caller.add(EPISODES[0])).code == "stale_attempt"


async def test_what_a_crew_of_another_number_left_in_files_is_over_on_whichever_worker_it_lies(tmp_path):
    async with crowd(tmp_path, 3) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
    async with crowd(tmp_path, 2) as caller:
        await caller.ok("restore", 1, **caller.installing(1, answer, **dict.fromkeys(KEYS, 1)))
        for worker in caller.workers.values():
            assert all(worker.admission.marks.retired(one) for one in EPISODES)


async def test_prepare_waits_for_the_last_of_all_workers(tmp_path):
    async with crowd(tmp_path, 2) as caller, anyio.create_task_group() as tasks:
        slow = owned(2)[0]
        caller.owner(slow).counts.slow = anyio.Event()
        tasks.start_soon(caller.add, slow)
        await anyio.wait_all_tasks_blocked()
        told = await caller.ok("prepare", 1, budget_ms=100)
        assert (told["phase"], told["report"]["blocker_count"]) == ("preparing", 1)
        assert told["report"]["blockers"][0]["key"] == slow.capture_key
        caller.owner(slow).counts.slow.set()
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"


async def test_work_that_leaves_piece_by_piece_is_not_looked_through_anew_for_each(tmp_path, autojump_clock):
    async with crowd(tmp_path, 1) as caller, anyio.create_task_group() as tasks:
        counts, under_way = caller.workers[1].counts, []
        for number in range(40):
            counts.slow = anyio.Event()
            under_way.append(counts.slow)
            tasks.start_soon(caller.add, EpisodeId(f"{number}-1"))
            await anyio.wait_all_tasks_blocked()
        report = counts.report

        def slow_report():
            autojump_clock.jump(1.0)
            return report()

        counts.report = slow_report
        told = await caller.ok("prepare", 1, budget_ms=100)
        assert told["phase"] == "preparing"
        counts.heard.clear()
        for one in under_way:
            one.set()
            await anyio.sleep(0.1)
        assert (await caller.ok("prepare", 1, budget_ms=10_000))["phase"] == "prepared"
        assert counts.heard.count("report") < 10


async def test_a_worker_that_is_not_there_is_a_blocker_by_name(tmp_path, autojump_clock):
    async with crowd(tmp_path, 2, in_thread=inline, joined=False) as caller:
        await caller.start(1)
        told = await caller.ok("prepare", 1, budget_ms=100)
        assert told["report"]["blockers"] == [{"key": "worker 2", "why": "it is not there"}]
        await caller.start(2)
        assert caller.workers[2].admission.closed, "one that joins while closed closes at once"
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"


async def test_a_worker_that_is_lost_while_closed_fails_the_checkpoint_and_nobody_waits_for_another(
    tmp_path, autojump_clock
):
    async with crowd(tmp_path, 2, in_thread=inline) as caller:
        await count_all(caller)
        assert (await caller.ok("prepare", 1))["phase"] == "prepared"
        await caller.kill(2)
        await caller.start(2)
        assert await caller.refused("commit", 1, **commit(1, *EPISODES)) == "not_ready"
        blocker = {"key": "worker 2", "why": "it was lost while closed"}
        assert (await caller.status())["report"]["blockers"] == [blocker]
        start = anyio.current_time()
        status, refusal = await caller.post("prepare", 1, budget_ms=100_000)
        assert (status, refusal["detail"]) == (422, "worker 2: it was lost while closed")
        assert (anyio.current_time(), await caller.phase()) == (start, "open")
        await caller.ok("resume", 1)
        told = await caller.ok("prepare", 2)
        assert told["phase"] == "prepared"
        assert sorted(told["report"]["restarts"]) == sorted(one.capture_key for one in owned(2))


async def test_what_a_lost_worker_had_a_part_in_is_a_restart_until_it_is_retired_or_forgotten(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        await count_all(caller)
        first, second, *rest = owned(2)
        await caller.kill(2)
        await caller.start(2)
        assert await caller.add(first) == "lost", "nothing of it goes on as if it began"
        told = await caller.ok("prepare", 1)
        assert told["report"]["restarts"] == sorted(one.capture_key for one in owned(2))
        assert await caller.refused("commit", 1, **commit(1, *EPISODES)) == "restart_in_scope"
        answer = await caller.ok("commit", 1, **commit(1, *owned(1)))
        assert sorted(answer["exported"]) == sorted(one.capture_key for one in owned(1))
        await caller.ok("resume", 1)
        await caller.ok("retire", 2, **retire(first))
        await caller.ok("forget", 2, rollout_ids=[second.rollout_id])
        told = await caller.ok("prepare", 3)
        assert told["report"]["restarts"] == sorted(one.capture_key for one in rest)
        await caller.ok("resume", 3)
        assert await caller.add(EpisodeId(first.rollout_id, 1)) == 1


async def test_the_retire_of_an_earlier_attempt_gives_a_lost_one_no_beginning(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        (first, *_) = owned(2)
        second, third = (EpisodeId(first.rollout_id, attempt) for attempt in (1, 2))
        await caller.add(second)
        await caller.kill(2)
        await caller.start(2)
        await caller.ok("retire", 1, **retire(first))
        assert await caller.add(second) == "lost"
        await caller.ok("retire", 2, **retire(second))
        assert await caller.add(third) == 1


async def test_a_worker_that_is_lost_after_the_prepare_fails_the_commit_and_nothing_is_written(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        await count_all(caller)
        await caller.ok("prepare", 1)

        def dying(_scope):
            caller.workers[2].scope.cancel()
            return []

        caller.workers[2].counts.export = dying  # it hears the order, and answers nothing
        assert await caller.refused("commit", 1, **commit(1, *EPISODES)) == "not_ready"
        assert await caller.refused("commit", 1, **commit(1, *EPISODES)) == "not_ready"
        assert not [*tmp_path.rglob("*.json*")]


async def test_a_commit_whose_operation_ends_while_workers_export_is_over_and_not_unready(tmp_path):
    async with crowd(tmp_path, 2) as caller, anyio.create_task_group() as tasks:
        await count_all(caller)
        await caller.ok("prepare", 1)
        codes = []

        async def committing():
            codes.append(await caller.refused("commit", 1, **commit(1, *EPISODES)))

        for worker in caller.workers.values():
            worker.theirs.hold()
        tasks.start_soon(committing)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(caller.ok, "resume", 1)
        await anyio.wait_all_tasks_blocked()
        for worker in caller.workers.values():
            worker.theirs.go_on()
        await anyio.wait_all_tasks_blocked()
        assert codes == ["stale_checkpoint"]
        assert not [*tmp_path.rglob("*.json*")]


async def test_one_that_is_not_at_its_boundaries_any_more_says_so_instead_of_exporting(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        await count_all(caller)
        await caller.ok("prepare", 1)
        worker = caller.workers[1]
        with worker.admission.enter(owned(1)[0], "what nobody expected"):
            assert await caller.refused("commit", 1, **commit(1, *EPISODES)) == "not_ready"
        assert not [*tmp_path.rglob("*.json*")]


async def test_marks_reach_every_worker_also_one_that_joins_later(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        await count_all(caller)
        await caller.ok("retire", 1, **retire(*EPISODES))
        assert all(worker.counts.counts == {} for worker in caller.workers.values())
        await caller.kill(1)
        await caller.start(1)
        for episode in EPISODES:
            assert (await caller.add(episode)).code == "stale_attempt"


async def test_the_lease_ends_a_pause_in_all_workers(tmp_path, autojump_clock):
    async with crowd(tmp_path, 2, in_thread=inline) as caller:
        await caller.ok("prepare", 1, lease_ms=30_000)
        got = []

        async def adding(episode):
            got.append(await caller.add(episode))

        start = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for episode in EPISODES:
                tasks.start_soon(adding, episode)
        assert got == [1] * len(EPISODES)
        assert anyio.current_time() - start == pytest.approx(35)
        assert await caller.phase() == "open"


async def test_a_higher_epoch_is_obeyed_everywhere_before_its_first_answer(tmp_path):
    async with crowd(tmp_path, 2) as caller:
        await caller.ok("prepare", 1)
        await caller.ok("hello", 0, epoch=2)
        for worker in caller.workers.values():
            assert (worker.admission.sender.epoch, worker.admission.closed) == (2, False)


async def test_a_restore_waits_for_workers_that_have_not_joined_yet(tmp_path):
    async with crowd(tmp_path, 1) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
    unjoined = crowd(tmp_path, 2, in_thread=inline, joined=False)
    async with unjoined as caller, anyio.create_task_group() as tasks:
        installed = []

        async def restoring():
            told = await caller.ok("restore", 1, **caller.installing(1, answer, **dict.fromkeys(KEYS, 1)))
            installed.extend(told["installed"])

        tasks.start_soon(restoring)
        await anyio.wait_all_tasks_blocked()
        await caller.start(1)
        await anyio.wait_all_tasks_blocked()
        assert installed == []
        await caller.start(2)
        await anyio.wait_all_tasks_blocked()
        assert len(installed) == len(EPISODES)


async def test_a_restore_that_fails_on_one_worker_leaves_nothing_on_any(tmp_path):
    async with crowd(tmp_path, 1) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
    async with crowd(tmp_path, 2) as caller:
        caller.workers[2].counts.fails["install"] = RuntimeError("no room")
        fields = caller.installing(1, answer, **dict.fromkeys(KEYS, 1))
        assert await caller.refused("restore", 1, **fields) == "invalid_state"
        assert await caller.phase() == "open"
        assert all(worker.counts.counts == {} for worker in caller.workers.values())


async def test_capabilities_say_how_many_workers_there_are(tmp_path):
    async with crowd(tmp_path, 3) as caller:
        told = (await caller.client.get("/checkpoint/v1/capabilities")).json()
        assert (told["workers"], told["kind"], told["instance"]) == (3, "resources", "counts")


async def test_a_worker_that_is_open_or_closed_for_another_checkpoint_exports_nothing(tmp_path):
    async with told(Worker(1)) as (worker, say):
        await say(frames.Welcome({}, {}))
        await say(frames.Stand(3, closed=True, sender=None, left=False))
        await worker.member.ready.wait()
        assert (await say(frames.Export(number=1, generation=2, scope=()))).not_ready
        assert not (await say(frames.Export(number=2, generation=3, scope=()))).not_ready
        await say(frames.Stand(3, closed=False, sender=None, left=False))
        assert (await say(frames.Export(number=3, generation=3, scope=()))).not_ready


async def test_a_worker_that_has_served_takes_up_nothing(tmp_path):
    async with told(Worker(1)) as (worker, say):
        await say(frames.Welcome({}, {}))
        await say(frames.Stand(0, closed=False, sender=None, left=False))
        await worker.add(EPISODES[0])
        done = await say(frames.Install(number=1, records=(), becomes=()))
        assert done.fault == "it has served: only a fresh process is restored into"


async def test_a_worker_that_hears_of_the_next_close_first_opens_in_between(tmp_path):
    async with told(Worker(1)) as (worker, say):
        await say(frames.Welcome({}, {}))
        for generation in (1, 2):
            await say(frames.Stand(generation, closed=True, sender=None, left=False))
        await say(frames.Tell(number=1))
        assert [word for word in worker.counts.heard if word != "report"] == ["close", "open", "close"]


async def test_what_a_worker_writes_to_its_log_amid_an_order_says_for_whom_that_is(tmp_path, monkeypatch):
    seen = {}

    def listened(name):
        hook = getattr(Counts, name)

        def listening(self, *arguments):
            now = whose()
            seen.setdefault(name, set()).add((now.run, now.epoch, now.operation))
            return hook(self, *arguments)

        monkeypatch.setattr(Counts, name, listening)

    for name in ("close", "open", "export", "install", "stop"):
        listened(name)
    async with crowd(tmp_path, 2) as caller:
        await count_all(caller)
        answer = await caller.committed(1, *EPISODES)
        await caller.ok("resume", 1)
        await caller.ok("retire", 2, **retire(*EPISODES))
    async with crowd(tmp_path, 2) as caller:
        await caller.ok("restore", 3, **caller.installing(1, answer, **dict.fromkeys(KEYS, 1)))
    assert seen == {
        "close": {("r1", 1, 1), ("r1", 1, 3)},
        "export": {("r1", 1, 1)},
        "open": {("r1", 1, 1)},
        "stop": {("r1", 1, 2)},
        "install": {("r1", 1, 3)},
    }


async def test_what_workers_count_is_one_sum_with_who_answers_for_them(tmp_path):
    sums = Counter()

    class Metrics:
        def add(self, name, by, attributes):
            sums[name, *attributes.values()] += by

    with record(Recording(counts=Metrics())):
        async with crowd(tmp_path, 2) as caller:
            for worker in caller.workers.values():
                worker.member.counted("refusals", 1, {"code": "retired"})
            await caller.ok("hello", 0)
            assert await caller.refused("retire", 1, epoch=0, **retire(EPISODES[0])) == "stale_epoch"
    assert sums == {("refusals", "retired"): 2, ("refusals", "stale_epoch"): 1}


@asynccontextmanager
async def told(worker):
    """A worker, and how it is told something; of an order, the answer."""

    async def say(said):
        await worker.ours.send(frames.encode(said))
        done = None
        while isinstance(said, frames.Order) and not isinstance(done, frames.Done):
            done = frames.from_worker(await worker.ours.receive())
        return done

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        yield worker, say
        tasks.cancel_scope.cancel()
