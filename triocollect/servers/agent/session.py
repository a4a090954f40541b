"""What an agent session knows, and what it does next. Pure: the state is a plain value, fit to park."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import MOST_COUNTED
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.cookies import renewed

Usage: TypeAlias = dict[str, object]  # numbers, some of them a level deeper

NOT_TOOLS: Final = frozenset({"seed_session", "verify", "close_session", "aggregate_metrics"})


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """One `function_call` item of a response (OpenAI Responses)."""

    call_id: str
    name: str
    arguments: str


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One episode's conversation. It is at a boundary whenever no step of it is under way.

    `produced` is everything the activation has added to its input so far: items of the model, outputs of
    tools. `calls` are the tool calls of the last response that have no output yet. `usage` adds up over the
    policy calls; `last` is the last response, `done` says that no step is left. `last_call` names the policy
    call that brought it, which tells a model server how far the conversation is known here. `sender`: for
    which collector it is played.
    """

    episode: EpisodeId
    agent: str
    sender: Sender | None = None
    cookie: str | None = None  # of the resources server, for those that know their sessions by it
    params: dict[str, Raw] | None = None  # responses_create_params; None: not activated yet
    input: tuple[Raw, ...] = ()
    produced: tuple[Raw, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    steps: int = 0  # policy calls so far
    usage: Usage | None = None
    last: dict[str, Raw] | None = None
    last_call: str | None = None
    done: bool = False


class CallModel(msgspec.Struct, frozen=True):
    """The next step is a policy call with this body."""

    body: bytes


class CallTool(msgspec.Struct, frozen=True):
    """The next step is this tool call."""

    call: ToolCall


class Finished(msgspec.Struct, frozen=True):
    """No step is left; this is the Response object of the activation."""

    response: bytes


NextStep: TypeAlias = CallModel | CallTool | Finished


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"


class _Incomplete(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Response(msgspec.Struct, frozen=True):
    output: tuple[Raw, ...]
    usage: Usage | None = None
    incomplete_details: _Incomplete | None = None


class _Tool(msgspec.Struct, frozen=True):
    name: str | None = None


def activated(session: Session, params: dict[str, Raw]) -> Session:
    """The session with its input. A `str` input is one user message. Raises msgspec.ValidationError."""
    given = msgspec.json.decode(params["input"], type=str | tuple[Raw, ...]) if "input" in params else ()
    if isinstance(given, str):
        message = {"role": "user", "content": given, "type": "message"}
        given = (Raw(msgspec.json.encode(message)),)
    return replace(session, params=params, input=given)


def next_step(session: Session, max_steps: int) -> NextStep:
    """What this session does from where it is."""
    if session.calls:
        return CallTool(session.calls[0])
    if session.last is not None and (session.done or session.steps >= max_steps):
        whole = {"output": session.produced, "usage": session.usage}
        return Finished(msgspec.json.encode({**session.last, **whole}))
    params = {**(session.params or {}), "input": [*session.input, *session.produced]}
    return CallModel(msgspec.json.encode(params))


def model_answered(session: Session, body: bytes, call_id: str | None = None) -> Session:
    """The session after a policy call. Raises msgspec.MsgspecError where `body` is not a Response object."""
    response = msgspec.json.decode(body, type=_Response)
    cut = response.incomplete_details is not None and response.incomplete_details.reason is not None
    calls = () if cut else _tool_calls(response.output)
    return replace(
        session,
        produced=(*session.produced, *response.output),
        calls=calls,
        steps=session.steps + 1,
        usage=_added(session.usage, _counted(response.usage)),
        last=msgspec.json.decode(body, type=dict[str, Raw]),
        last_call=call_id,
        done=not calls,
    )


def tool_answered(session: Session, output: str, cookie: str | None = None) -> Session:
    """The session after its first open tool call has this output, and came with these cookies."""
    call, *rest = session.calls
    item = {"type": "function_call_output", "call_id": call.call_id, "output": output}
    return replace(
        session,
        produced=(*session.produced, Raw(msgspec.json.encode(item))),
        calls=tuple(rest),
        cookie=renewed(session.cookie, cookie),
    )


def tool_fault(session: Session, call: ToolCall) -> str | None:
    """Why this call cannot be made, in words for the model; None when it can.

    The resources server's own routes are no tools: a model that could call `verify` would judge itself.
    """
    declared = msgspec.json.decode(
        (session.params or {}).get("tools", b"null"), type=tuple[_Tool, ...] | None
    )
    if call.name in NOT_TOOLS or call.name not in {tool.name for tool in declared or ()}:
        return f"there is no tool named {call.name}"
    try:
        msgspec.json.decode(call.arguments or "{}", type=dict[str, Raw])
    except NOT_JSON as error:
        return f"the arguments of {call.name} are not a JSON object: {error}"
    return None


def _tool_calls(output: Sequence[Raw]) -> tuple[ToolCall, ...]:
    return tuple(
        msgspec.json.decode(item, type=ToolCall)
        for item in output
        if msgspec.json.decode(item, type=_Item).type == "function_call"
    )


def _counted(usage: Usage | None) -> Usage | None:
    """The same. Raises msgspec.ValidationError for tokens below none, and numbers that no float can take."""
    for name, value in (usage or {}).items():
        if isinstance(value, dict):
            _counted(value)
        elif isinstance(value, int):
            least = 0 if name.endswith("tokens") else -MOST_COUNTED
            if not least <= value < MOST_COUNTED:
                raise msgspec.ValidationError(
                    f"`{name}` of its usage is not from {least} to {MOST_COUNTED - 1}"
                )
    return usage


def _added(one: Usage | None, other: Usage | None) -> Usage | None:
    """Two usages as one: numbers add up, at any depth; what is not a number is the later one's."""
    if one is None or other is None:
        return other if one is None else one
    return {**one, **{key: _sum(one.get(key), value) for key, value in other.items()}}


def _sum(one: object, other: object) -> object:
    match one, other:
        case (int() | float(), int() | float()):
            return one + other
        case dict(), dict():
            return _added(one, other)
        case _:
            return other
