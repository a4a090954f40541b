"""Servers that keep checkpoints elsewhere than the run are noticed by what they see there."""

from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.checkpoint.world import world
from triocollect.checkpoint.directory import open_directory
from triocollect.checkpoint.same_place import require_same_place
from triocollect.errors import UsageError


@asynccontextmanager
async def greeted(run, servers):
    """A directory that a run has taken, and what servers answered that have another name for theirs."""
    directory = await open_directory(run, wait_s=None, warn=pytest.fail)
    try:
        directory.raise_epoch()
        async with world(servers) as here:
            yield directory, await here.coordination.places()
    finally:
        directory.close()


def judge(directory, replies):
    require_same_place(replies, directory.path, directory.lock_sha256)


async def test_one_directory_under_two_names_is_one(tmp_path, autojump_clock):
    (tmp_path / "run").mkdir()
    (tmp_path / "as-mounted").symlink_to("run")
    async with greeted(tmp_path / "run", tmp_path / "as-mounted") as (directory, replies):
        assert len(replies) == 4
        judge(directory, replies)


async def test_two_directories_are_two_also_where_one_is_a_copy_of_the_other(tmp_path, autojump_clock):
    (tmp_path / "servers").mkdir()
    async with greeted(tmp_path / "run", tmp_path / "servers") as (directory, _):
        before = (tmp_path / "run/collector.lock").read_bytes()
    (tmp_path / "servers/collector.lock").write_bytes(before)
    async with greeted(tmp_path / "run", tmp_path / "servers") as (directory, replies):
        with pytest.raises(UsageError) as refused:
            judge(directory, replies)
    told = str(refused.value)
    assert "agent one at http://agent, environment one at http://environment, " in told
    assert "and 1 more server: keeps checkpoints in " in told
    assert f"in '{tmp_path}/servers', which is not {tmp_path}/run, " in told
    assert "--checkpoint-dir" in told


async def test_a_server_that_cannot_see_the_directory_is_named(tmp_path, autojump_clock):
    async with greeted(tmp_path / "run", tmp_path / "nowhere") as (directory, replies):
        with pytest.raises(UsageError, match=f"keeps checkpoints in '{tmp_path}/nowhere', which is not"):
            judge(directory, replies)


async def test_what_a_server_calls_its_directory_is_told_in_short_and_harms_no_terminal(
    tmp_path, autojump_clock
):
    (tmp_path / "servers").mkdir()
    async with greeted(tmp_path / "run", tmp_path / "servers") as (directory, replies):
        lies = {one: replace(reply, directory="\x1b[2J\n" + "x" * 10_000) for one, reply in replies.items()}
        with pytest.raises(UsageError) as refused:
            judge(directory, lies)
    told = str(refused.value)
    assert told.isprintable()
    assert len(told) < 1000


async def test_a_server_that_does_not_say_where_it_writes_is_not_refused(tmp_path, autojump_clock):
    (tmp_path / "servers").mkdir()
    async with greeted(tmp_path / "run", tmp_path / "servers") as (directory, replies):
        judge(directory, dict.fromkeys(replies))
