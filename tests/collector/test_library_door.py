"""The library's door, as a program of its own uses it."""

import asyncio

import attrs
import pytest
import trio

import triocollect
from tests.collector.runs import RunFolder, rewarded
from triocollect.errors import UsageError, WouldOverwriteError


def config_of(place, **settings):
    return triocollect.load_config({"input": str(place.input), "output": str(place.output), **settings})


async def at_once(row, attempt):
    return {"reward": 1.0, "prompt": row["prompt"]}


async def test_results_come_after_they_are_written_and_the_report_at_the_end(tmp_path):
    place, seen = RunFolder(tmp_path), []
    async with triocollect.running(config_of(place), dispatch=at_once) as run:
        async for result in run:
            assert list(result.key) in [
                [r["_ng_task_index"], r["_ng_rollout_index"]] for r in place.records()
            ]
            assert result.record in place.output.read_bytes()
            seen.append(result.key)
        assert run.report is not None
    assert sorted(seen) == [(n, 0) for n in range(4)]
    assert run.report.succeeded == 4


async def test_a_run_that_is_left_early_can_be_continued(tmp_path):
    place = RunFolder(tmp_path, rows=40)
    async with triocollect.running(config_of(place, concurrency=2), dispatch=at_once) as run:
        await anext(aiter(run))
    assert run.report is None
    assert 1 <= len(place.records()) < 40, "a slow reader holds new rows back"
    report = await triocollect.collect(config_of(place, resume="auto"), dispatch=at_once)
    assert report.succeeded == 40
    assert len(place.records()) == 40


async def test_an_exception_of_the_block_comes_out_as_it_is(tmp_path):
    async def block():
        async with triocollect.running(config_of(RunFolder(tmp_path)), dispatch=at_once) as run:
            async for _ in run:
                raise ExceptionGroup("mine", [LookupError("a"), UsageError("b")])

    with pytest.raises(ExceptionGroup) as raised:
        await block()
    assert raised.group_contains(LookupError)


async def test_a_refusal_is_raised_plain(tmp_path):
    place = RunFolder(tmp_path)
    await triocollect.collect(config_of(place), dispatch=at_once)
    with pytest.raises(
        WouldOverwriteError, match='"overwrite": True deletes them, "resume": "auto" continues'
    ):
        await triocollect.collect(config_of(place), dispatch=at_once)

    async def iterate():
        async with triocollect.running(config_of(place), dispatch=at_once) as run:
            return [result async for result in run]

    with pytest.raises(WouldOverwriteError):
        await iterate()


async def test_on_result_hears_of_every_row(tmp_path):
    place, heard = RunFolder(tmp_path), []
    await triocollect.collect(config_of(place), dispatch=at_once, on_result=heard.append)
    assert sorted(result.key for result in heard) == [(n, 0) for n in range(4)]


async def test_a_checkpoint_of_a_run_without_a_directory_is_refused_in_words(tmp_path):
    async with triocollect.running(config_of(RunFolder(tmp_path)), dispatch=at_once) as run:
        with pytest.raises(UsageError, match="names no checkpoint_dir"):
            await run.checkpoint()
        assert len([result async for result in run]) == 4


async def test_who_asks_a_run_that_never_began_for_a_checkpoint_is_told_so(tmp_path):
    place, answers = RunFolder(tmp_path), []
    await triocollect.collect(config_of(place), dispatch=at_once)
    config = config_of(
        place, checkpoint_dir=str(tmp_path / "ckpt"), environment_url="http://127.0.0.1:1", resume="never"
    )
    answers = []

    async def block():
        async with triocollect.running(config) as run, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, run)

    async def ask(run):
        answers.append(await run.checkpoint())

    with pytest.raises(UsageError, match="token"):
        await block()
    assert [type(answer) for answer in answers] == [triocollect.NotPublished] * 3
    assert {answer.reason for answer in answers} == {"the run has ended"}


@pytest.mark.usefixtures("autojump_clock")
async def test_a_cancelled_collect_leaves_a_folder_that_goes_on(tmp_path):
    place = RunFolder(tmp_path, rows=6)
    with trio.move_on_after(1.5) as scope:
        await triocollect.collect(config_of(place, concurrency=2), dispatch=rewarded)
    assert scope.cancelled_caught
    assert len(place.records()) == 2
    report = await triocollect.collect(config_of(place, resume="must"), dispatch=rewarded)
    assert (report.succeeded, report.succeeded_now) == (6, 4)
    assert report.mean_reward == 1.0
    assert report.rewards == 6


def test_collect_sync_works_in_a_thread_of_an_asyncio_program(tmp_path):
    place = RunFolder(tmp_path)

    async def program():
        return await asyncio.to_thread(triocollect.collect_sync, config_of(place), dispatch=at_once)

    assert asyncio.run(program()).succeeded == 4


def test_collect_under_asyncio_says_what_to_do(tmp_path):
    async def program():
        await triocollect.collect(config_of(RunFolder(tmp_path)), dispatch=at_once)

    with pytest.raises(UsageError, match=r"asyncio\.to_thread\(triocollect\.collect_sync"):
        asyncio.run(program())


async def test_two_runs_in_one_program_do_not_meet(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    places = [RunFolder(tmp_path / name, rows=9) for name in "ab"]
    async with trio.open_nursery() as nursery:
        for place in places:
            config = attrs.evolve(config_of(place))
            nursery.start_soon(lambda config=config: triocollect.collect(config, dispatch=at_once))
    assert [len(place.records()) for place in places] == [9, 9]
