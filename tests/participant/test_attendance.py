"""A server that is told to end knows whether a collector needs it still."""

import anyio
import pytest

from tests.participant.harness import ONE, commit, inline, participant


async def is_over(caller):
    """Whether somebody who waits for it is let go."""
    with anyio.move_on_after(0.01) as patience:
        await caller.counts.admission.attendance.over()
    return not patience.cancelled_caught


async def test_nobody_needs_a_server_that_no_collector_has_greeted(tmp_path, autojump_clock):
    async with participant(tmp_path) as caller:
        await caller.status()
        assert await is_over(caller)


async def test_a_collector_needs_it_from_its_greeting_to_its_goodbye(tmp_path, autojump_clock):
    async with participant(tmp_path) as caller:
        await caller.ok("hello", 0)
        await caller.ok("forget", 1, rollout_ids=["one"])
        await caller.status()
        assert not await is_over(caller)
        await caller.ok("forget", 2, rollout_ids=[], goodbye=True)
        assert await is_over(caller)
        await caller.ok("hello", 0, epoch=2)
        assert not await is_over(caller)


async def test_after_the_commit_of_a_stop_it_is_needed_until_it_was_asked_once_more(tmp_path, autojump_clock):
    async with participant(tmp_path, in_thread=inline) as caller:
        await caller.ok("prepare", 1)
        await caller.status()
        await caller.ok("commit", 1, **commit(1, ONE), stop=True)
        assert not await is_over(caller)
        await caller.status()
        assert await is_over(caller)


@pytest.mark.parametrize("stop", [False, True])
async def test_a_checkpoint_that_is_followed_by_another_is_no_end(tmp_path, autojump_clock, stop):
    async with participant(tmp_path, in_thread=inline) as caller:
        await caller.ok("prepare", 1)
        await caller.ok("commit", 1, **commit(1, ONE), stop=stop)
        if stop:
            await caller.ok("prepare", 2)  # the first did not succeed elsewhere
        await caller.status()
        assert not await is_over(caller)
