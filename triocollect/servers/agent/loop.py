"""One activation: step after step, at a boundary before each."""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote

import attrs
import msgspec

from triocollect.errors import PeerError
from triocollect.servers.agent.session import (
    CallModel,
    CallTool,
    Finished,
    Session,
    ToolCall,
    model_answered,
    next_step,
    tool_answered,
    tool_fault,
)
from triocollect.servers.identity import identity_headers, model_path
from triocollect.servers.peers import Peer, answered_badly

SERVER_FAULT: Final = 500


@attrs.frozen(kw_only=True)
class AgentPeers:
    """Whom the sessions of one agent instance talk to, and how many policy calls one may make."""

    resources: Peer
    model: Peer
    max_steps: int


async def run_session(
    session: Session, around: AgentPeers, at_boundary: Callable[[Session], Awaitable[None]]
) -> Session:
    """Run a session from its boundary to its end.

    `at_boundary` gets the session before each step and after the last one, and may wait: whoever parks
    sessions does it there. Raises PeerError.
    """
    while True:
        await at_boundary(session)
        match next_step(session, around.max_steps):
            case CallModel(body):
                session = await _call_model(session, around.model, body)
            case CallTool(call):
                session = await _call_tool(session, around.resources, call)
            case Finished():
                return session


async def _call_model(session: Session, model: Peer, body: bytes) -> Session:
    reply = await model.post(model_path(session.episode), body, {})
    try:
        return model_answered(session, reply.body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PeerError(f"{model.name} answered with no Response object: {error}", passing=False) from error


async def _call_tool(session: Session, resources: Peer, call: ToolCall) -> Session:
    """The model reads its own mistakes as the tool's output (Gym 0.7.0); a broken server ends the session."""
    if (fault := tool_fault(session, call)) is not None:
        return tool_answered(session, fault)
    path = f"/{quote(call.name, safe='')}"
    headers = identity_headers(session.episode)
    if session.cookie is not None:
        headers["cookie"] = session.cookie
    reply = await resources.ask(path, (call.arguments or "{}").encode(), headers)
    if reply.status >= SERVER_FAULT:
        raise answered_badly(resources.name, path, reply)
    return tool_answered(session, reply.body.decode(errors="replace"), reply.cookie)
