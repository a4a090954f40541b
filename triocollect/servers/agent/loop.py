"""One activation: step after step, at a boundary before each."""

from typing import Final
from urllib.parse import quote

import attrs

from triocollect.errors import PeerError
from triocollect.participant import Work
from triocollect.protocol.identity import PARENT_CALL, identity_headers, model_path, sender_headers
from triocollect.protocol.values import NOT_JSON
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
from triocollect.servers.agent.sessions import AgentSessions
from triocollect.servers.peers import Peer, PeerReply, answered_badly

SERVER_FAULT: Final = 500


@attrs.frozen(kw_only=True)
class AgentPeers:
    """Whom the sessions of one agent instance talk to, and how many policy calls one may make."""

    resources: Peer
    model: Peer
    max_steps: int


async def run_session(session: Session, around: AgentPeers, work: Work, sessions: AgentSessions) -> Session:
    """Run a session from its boundary to its end.

    `sessions` are told the boundary before each step and after the last one; there it rests while the door is
    closed. A policy call rests too: it is made right after a boundary and is made again after a crash. A tool
    call is not safe to make twice, so one that brought no answer leaves no boundary to go on from. Raises
    PeerError, never while the door is closed.
    """
    while True:
        sessions.at_boundary(session)
        await work.boundary("between two steps")
        match next_step(session, around.max_steps):
            case CallModel(body):
                async with work.resting("reading a policy call's answer"):
                    reply = await around.model.post(
                        model_path(session.episode), body, _policy_call_headers(session)
                    )
                session = _answered(session, reply, around.model.name)
            case CallTool(call):
                work.busy(f"tool {call.name}")
                try:
                    session = await _call_tool(session, around.resources, call)
                except BaseException as error:
                    sessions.tear(session.episode)
                    if isinstance(error, PeerError):
                        await work.boundary("a tool that broke")
                    raise
            case Finished():
                return session


def _policy_call_headers(session: Session) -> dict[str, str]:
    parent = {} if session.last_call is None else {PARENT_CALL: session.last_call}
    return {**sender_headers(session.sender), **parent}


def _answered(session: Session, reply: PeerReply, model: str) -> Session:
    try:
        return model_answered(session, reply.body, reply.call_id)
    except NOT_JSON as error:
        raise PeerError(f"{model} answered with no Response object: {error}", passing=False) from error


async def _call_tool(session: Session, resources: Peer, call: ToolCall) -> Session:
    """The model reads its own mistakes as the tool's output (Gym 0.7.0); a broken server ends the session."""
    if (fault := tool_fault(session, call)) is not None:
        return tool_answered(session, fault)
    path = f"/{quote(call.name, safe='')}"
    headers = identity_headers(session.episode, session.sender)
    if session.cookie is not None:
        headers["cookie"] = session.cookie
    reply = await resources.ask(path, (call.arguments or "{}").encode(), headers)
    if reply.status >= SERVER_FAULT:
        raise answered_badly(resources.name, path, reply)
    return tool_answered(session, reply.body.decode(errors="replace"), reply.cookie)
