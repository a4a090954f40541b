"""An agent calls no tool while it is closed: what that did would be in no record, or be done once more."""

import json

import pytest
import trio
from msgspec import Raw
from trio.testing import wait_all_tasks_blocked

from fuzz.invariants import all_hold, holds
from triocollect.participant import Admission, EpisodeId
from triocollect.servers.agent.loop import AgentPeers, run_session
from triocollect.servers.agent.session import Session, activated
from triocollect.servers.agent.sessions import AgentSessions
from triocollect.servers.peers import PeerReply

EPISODE = EpisodeId("0-0", 1)
TOOLS = ("first", "second")


def a_reply(**fields):
    return PeerReply(status=200, body=json.dumps(fields).encode(), cookie=None, call_id=None)


class Around:
    """The model asks for two tools at once, and then for none. An answer waits until it is `let`."""

    name = "around"

    def __init__(self):
        self.asked, self.let = [], trio.Semaphore(0)

    async def post(self, _path, _body, _headers):
        is_first = not self.asked
        self.asked.append("model")
        await self.let.acquire()
        calls = [{"type": "function_call", "call_id": one, "name": one, "arguments": "{}"} for one in TOOLS]
        return a_reply(id="r", output=calls if is_first else [])

    async def ask(self, path, _body, _headers):
        self.asked.append(path)
        await self.let.acquire()
        return a_reply(value=1)


async def asked_while_closed(steps):
    """What a session asks for that is closed during the step after so many; and what is not at a boundary."""
    around, sessions = Around(), AgentSessions("agent", Admission())
    tools = [{"type": "function", "name": one} for one in TOOLS]
    session = activated(Session(episode=EPISODE, agent="a"), {"tools": Raw(json.dumps(tools).encode())})
    sessions.begin(session)
    peers = AgentPeers(resources=around, model=around, max_steps=8)
    door = sessions.admission
    async with trio.open_nursery() as nursery:
        with door.enter(EPISODE, "starting") as work:
            nursery.start_soon(run_session, session, peers, work, sessions)
            for _ in range(steps):
                await wait_all_tasks_blocked()
                around.let.release()
            await wait_all_tasks_blocked()
            before = len(around.asked)
            door.close()
            is_tool = around.asked[-1] != "model"
            holds(12, bool(door.blockers()) == is_tool, f"a tool call of {around.asked} blocks no cut")
            around.let.release()
            await wait_all_tasks_blocked()
            early, blockers = around.asked[before:], door.blockers()
            door.open()
            for _ in range(len(TOOLS) + 2):
                around.let.release()
            await wait_all_tasks_blocked()
    return early, blockers, around.asked


@pytest.mark.parametrize("steps", range(len(TOOLS) + 1))
def test_no_step_begins_while_the_door_is_closed(steps):
    early, blockers, asked = trio.run(asked_while_closed, steps)
    words = f"after {asked[: steps + 1]} it asked for {early} while it was closed"
    all_hold((5, 11, 12, 13), not early, words)
    holds(13, not blockers, f"{blockers}: a session that could stand at a boundary did not")
    assert asked == ["model", *[f"/{one}" for one in TOOLS], "model"]
