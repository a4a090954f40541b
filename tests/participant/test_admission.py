"""The door by itself."""

import anyio
import pytest

from triocollect.participant import Admission, EpisodeId, Refusal
from triocollect.protocol.identity import Sender

ONE, LATER = EpisodeId("one"), EpisodeId("one", 1)


def keys(admission):
    return [blocker.key for blocker in admission.blockers()]


async def test_work_blocks_until_it_rests_or_leaves():
    admission = Admission()
    with admission.enter(ONE, "thinking") as work:
        assert [(one.key, one.why) for one in admission.blockers()] == [("one", "thinking")]
        work.rest()
        assert keys(admission) == []
        work.busy("thinking again")
        assert keys(admission) == ["one"]
    assert keys(admission) == []


async def test_a_boundary_is_passed_at_once_while_the_door_is_open():
    admission = Admission()
    with admission.enter(ONE, "thinking") as work, anyio.CancelScope() as scope:
        scope.cancel()
        await work.boundary("thinking")
    assert not scope.cancelled_caught


async def test_work_stands_at_its_boundary_while_the_door_is_closed():
    admission, begin, passed = Admission(), anyio.Event(), []

    async def go():
        with admission.enter(ONE, "thinking") as work:
            await begin.wait()
            await work.boundary("thinking")
            passed.append(keys(admission))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await anyio.wait_all_tasks_blocked()
        admission.close()
        assert keys(admission) == ["one"]
        begin.set()
        await anyio.wait_all_tasks_blocked()
        assert (passed, keys(admission)) == ([], [])
        admission.open()
    assert passed == [["one"]]


async def test_what_may_run_twice_never_blocks_and_what_follows_it_waits():
    admission, reply, after = Admission(), anyio.Event(), []

    async def go():
        with admission.enter(ONE, "thinking") as work:
            async with work.resting("thinking"):
                await reply.wait()
            after.append("reply")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await anyio.wait_all_tasks_blocked()
        admission.close()
        assert keys(admission) == []
        reply.set()
        await anyio.wait_all_tasks_blocked()
        assert after == []
        admission.open()
    assert after == ["reply"]


async def test_a_failure_during_a_resting_step_is_acted_on_after_the_opening():
    admission, reply, seen = Admission(), anyio.Event(), []

    async def go():
        with admission.enter(ONE, "thinking") as work:
            try:
                async with work.resting("thinking"):
                    await reply.wait()
                    {}["nothing"]
            except KeyError:
                seen.append("failed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await anyio.wait_all_tasks_blocked()
        admission.close()
        reply.set()
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        admission.open()
    assert seen == ["failed"]


@pytest.mark.parametrize("way", ["resting", "boundary"])
async def test_work_that_is_cancelled_while_the_door_is_closed_blocks_until_it_has_cleaned_up(way):
    """Its client hung up in the very tick of the closing, so a prepare found it at its boundary."""
    admission, seen = Admission(), []
    with admission.enter(ONE, "thinking") as work, anyio.CancelScope() as scope:
        try:
            scope.cancel()
            admission.close()
            if way == "boundary":
                await work.boundary("thinking")
            async with work.resting("thinking"):
                await anyio.sleep_forever()
        finally:
            seen = keys(admission)
    assert seen == ["one"]
    assert keys(admission) == []


async def test_settle_returns_at_every_kind_of_change():
    admission = Admission()
    changes = []

    async def watch():
        while True:
            await admission.settle()
            changes.append(keys(admission))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        with admission.enter(ONE, "thinking") as work:
            await anyio.wait_all_tasks_blocked()
            work.rest()
            await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert changes == [["one"], [], []]


async def test_stopping_an_attempt_ends_it_and_earlier_ones_wherever_they_stand():
    admission, ended = Admission(), []

    async def go(episode):
        with admission.enter(episode, "thinking") as work:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(episode)
        assert work.retired

    async with anyio.create_task_group() as tasks:
        for episode in (ONE, LATER, EpisodeId("one", 2), EpisodeId("other")):
            tasks.start_soon(go, episode)
        await anyio.wait_all_tasks_blocked()
        await admission.stop([LATER])
        assert sorted(ended) == [ONE, LATER]
        await admission.stop([EpisodeId("one", 2), EpisodeId("other")])


async def test_stop_returns_only_when_the_work_has_cleaned_up():
    admission, cleaned, stopped = Admission(), anyio.Event(), []

    async def go():
        with admission.enter(ONE, "thinking"):
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await cleaned.wait()

    async def stop():
        await admission.stop([ONE])
        stopped.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(stop)
        await anyio.wait_all_tasks_blocked()
        assert stopped == []
        cleaned.set()
    assert stopped == [True]


async def test_admit_refuses_what_is_retired_and_counts_only_what_it_lets_in():
    admission = Admission()
    admission.marks.retire([ONE])
    refused = await admission.admit(ONE, "thinking")
    assert isinstance(refused, Refusal)
    assert not admission.served
    work = await admission.admit(LATER, "thinking")
    assert not isinstance(work, Refusal)
    with work:
        assert admission.served


def test_a_request_in_the_name_of_a_collector_that_is_gone_is_refused_however_late_it_comes():
    admission = Admission()
    earlier, ours, other = Sender("r1", 6), Sender("r1", 7), Sender("r2", 9)

    def code(sender):
        refused = admission.refusal(ONE, sender=sender)
        return None if refused is None else refused.code

    assert code(ours) is None, "nobody has greeted yet, so nobody is gone"
    admission.meet(ours)
    assert [code(each) for each in (earlier, ours, other, None)] == ["stale_epoch", None, "other_run", None]
    admission.goodbye()
    assert code(ours) == "stale_epoch"
    admission.meet(other)
    assert [code(each) for each in (ours, other)] == ["other_run", None]


async def test_what_belongs_to_a_restart_blocks_nothing():
    admission = Admission()
    admission.works.update(admission.enter(EpisodeId(name), "thinking") for name in ("b", "c", "a"))
    report = admission.report(restarts=[EpisodeId("b")])
    assert ([one.key for one in report.blockers], report.blocker_count) == (["a", "c"], 2)
    assert report.restarts == ("b",)


def test_marks_are_never_lowered_and_leave_later_attempts_alone():
    marks = Admission().marks
    marks.retire([EpisodeId("one", 3)])
    marks.retire([EpisodeId("one", 1)])
    marks.install([EpisodeId("one", 2)])
    assert [marks.retired(EpisodeId("one", attempt)) for attempt in range(6)] == [True] * 4 + [False] * 2
    assert marks.refusal(EpisodeId("one", 0)).retired_through == 3
    marks.install([EpisodeId("one", 5)])
    assert marks.refusal(EpisodeId("one", 4)).retired_through == 4
    assert marks.refusal(EpisodeId("one", 5)) is None
    marks.forget(["one"])
    assert marks.refusal(EpisodeId("one", 0)) is None
    marks.install([EpisodeId("one", 0)])
    assert not marks.retired(EpisodeId("one", 0))
