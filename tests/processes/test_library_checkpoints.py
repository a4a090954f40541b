"""A program of somebody's asks the run that it iterates over for checkpoints; the servers are real ones."""

import pytest
import trio
import trio.testing

import triocollect
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes


def config_of(folder):
    return triocollect.load_config(
        {
            "input": str(datasets.path("counter")),
            "output": str(folder / "out.jsonl"),
            "limit": 16,
            "concurrency": 4,
            "checkpoint_dir": str(folder / "ckpt"),
        }
    )


async def test_all_who_ask_at_once_share_a_checkpoint_and_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_TOKENS_PER_S", "30")
    early, taken, done = [], [], 0
    with trio.fail_after(120):
        async with triocollect.running(config_of(tmp_path)) as run, trio.open_nursery() as asking:

            async def ask(answers):
                answers.append(await run.checkpoint())

            asking.start_soon(ask, early)  # nothing has been started yet
            async for _ in run:
                done += 1
                if done == 2:
                    async with trio.open_nursery() as nursery:
                        for _ in range(5):
                            nursery.start_soon(ask, taken)
            assert run.report.succeeded == done == 16
            late = await run.checkpoint()
    assert len(early) == 1
    assert [type(answer) for answer in taken] == [triocollect.Published] * 5
    assert len({answer.outcome.checkpoint_id for answer in taken}) == 1
    assert taken[0].continued
    assert isinstance(late, triocollect.NotPublished)
    assert late.reason == "the run has ended"
    assert not (tmp_path / "ckpt/collector.pid").exists(), "nobody said that signals are heard here"


async def test_who_still_waits_for_a_checkpoint_of_a_run_that_is_left_is_told_so(tmp_path):
    answers = []
    with trio.fail_after(120):
        async with trio.open_nursery() as asking, triocollect.running(config_of(tmp_path)) as run:

            async def ask():
                answers.append(await run.checkpoint())

            asking.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
    assert [answer.reason for answer in answers] == ["the run has ended"]
