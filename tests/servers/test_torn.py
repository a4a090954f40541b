"""A tool that brought no answer: what it did is not known, so no checkpoint continues from it."""

from contextlib import asynccontextmanager

import httpx
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import Rollout, crew, effects
from tests.servers.wired import COUNTER_ROW

ROW = {**COUNTER_ROW, "_ng_rollout_id": "r"}


@asynccontextmanager
async def whose_tool_breaks(root):
    """(crew, rollout, a hand that lets the tool's answer be lost) once the tool has had its effect."""
    done, go = trio.Event(), trio.Event()

    async with crew(root) as one, trio.open_nursery() as nursery:
        real = one.deployment.apps["counter"]

        async def loses(request):
            answer = await httpx.ASGITransport(real).handle_async_request(request)
            if request.url.path != "/increment":
                return answer
            done.set()
            await go.wait()
            raise httpx.ReadError("the answer is lost", request=request)

        one.deployment.replaced["counter"] = loses
        rollout = Rollout(one, ROW)
        nursery.start_soon(rollout.fly)
        await done.wait()
        yield one, rollout, go
        await rollout.done.wait()


async def test_a_tool_whose_answer_is_lost_makes_its_rollout_start_again(tmp_path, autojump_clock):
    async with (
        whose_tool_breaks(tmp_path) as (one, rollout, go),
        trio.open_nursery() as nursery,
    ):
        reports, prepared = {}, trio.Event()

        async def prepare():
            reports.update(await one.prepare())
            prepared.set()

        nursery.start_soon(prepare)
        await wait_all_tasks_blocked()
        assert await one.blockers("agent") == [("r", "tool increment")]
        go.set()
        await prepared.wait()
        assert reports["agent"]["restarts"] == ["r"]
        fields = {**one.place(), "scope": [{"rollout_id": "r", "attempt": 0}]}
        status, body = await one.call("agent", "commit", **fields)
        assert (status, body["error"]["code"]) == (409, "restart_in_scope")
        assert not rollout.done.is_set()
        await one.resume()
        await rollout.done.wait()
        assert rollout.reply.status_code == 503, "nobody knows how it went, so it is no reply"
    assert [line["effect"] for line in effects(tmp_path)] == ["seed", "increment"]


async def test_a_rollout_that_is_over_is_nobodys_restart(tmp_path, autojump_clock):
    async with whose_tool_breaks(tmp_path) as (one, rollout, go):
        go.set()
        await rollout.done.wait()
        assert (await one.prepare())["agent"]["restarts"] == []
        await one.resume()
