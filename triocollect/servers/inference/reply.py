"""The worker's answer in the shape of OpenAI's Responses API, whole or as a stream of events. Pure."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from triocollect.servers.inference.conversation import NULL, Conversation
from triocollect.servers.inference.moves import ToolCall
from triocollect.servers.inference.script import decide
from triocollect.servers.inference.tokens import pieces

# The same request gets the same response, so that no clock may show in it.
CREATED_AT: Final = 0


class OutputText(msgspec.Struct, frozen=True, tag="output_text"):
    text: str
    annotations: tuple[()] = ()
    logprobs: None = None


class Message(msgspec.Struct, frozen=True, tag="message"):
    id: str
    status: str
    content: tuple[OutputText, ...]
    role: str = "assistant"


class FunctionCall(msgspec.Struct, frozen=True, tag="function_call"):
    id: str
    status: str
    call_id: str
    name: str
    arguments: str


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class Usage(msgspec.Struct, frozen=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputDetails = InputDetails()
    output_tokens_details: OutputDetails = OutputDetails()


class Incomplete(msgspec.Struct, frozen=True):
    reason: str = "max_output_tokens"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's response object."""

    id: str
    object: str = "response"
    created_at: int = CREATED_AT
    status: str
    error: None = None
    incomplete_details: Incomplete | None = None
    instructions: Raw
    max_output_tokens: int | None
    metadata: Raw
    model: Raw
    output: tuple[Message | FunctionCall, ...]
    parallel_tool_calls: Raw
    temperature: Raw
    tool_choice: Raw
    tools: Raw
    top_p: Raw
    usage: Usage | None


class Reply(msgspec.Struct, frozen=True):
    """A response, and the tokens that its one output item was generated as."""

    response: Response
    item: Message | FunctionCall
    tokens: tuple[str, ...]


class Frame(msgspec.Struct, frozen=True):
    """One server-sent event, and how many tokens must have been generated before it can be sent."""

    after_tokens: int
    data: bytes


def compose(conversation: Conversation) -> Reply:
    """The whole answer; cut off, and marked as incomplete, at `max_output_tokens`."""
    decision, echo = decide(conversation), conversation.echo
    generated = pieces(decision.arguments if isinstance(decision, ToolCall) else decision.text)
    tokens = generated[: echo.max_output_tokens]
    status = "completed" if tokens == generated else "incomplete"
    name = conversation.digest.hex()
    item: Message | FunctionCall
    if isinstance(decision, ToolCall):
        item = FunctionCall(f"fc_{name}", status, f"call_{name}", decision.name, "".join(tokens))
    else:
        item = Message(f"msg_{name}", status, (OutputText("".join(tokens)),))
    response = Response(
        id=f"resp_{name}",
        status=status,
        incomplete_details=None if status == "completed" else Incomplete(),
        output=(item,),
        usage=Usage(conversation.input_tokens, len(tokens), conversation.input_tokens + len(tokens)),
        instructions=echo.instructions,
        max_output_tokens=echo.max_output_tokens,
        metadata=echo.metadata,
        model=_or(echo.model, b'"scripted"'),
        parallel_tool_calls=_or(echo.parallel_tool_calls, b"true"),
        temperature=echo.temperature,
        tool_choice=_or(echo.tool_choice, b'"auto"'),
        tools=_or(echo.tools, b"[]"),
        top_p=echo.top_p,
    )
    return Reply(response, item, tokens)


def _or(given: Raw, default: bytes) -> Raw:
    return Raw(default) if given == NULL else given


def frames(reply: Reply) -> Iterator[Frame]:
    """The events of a streamed response, in OpenAI's order: one delta for each token."""
    total = len(reply.tokens)
    for number, (after, kind, fields) in enumerate(_events(reply, total)):
        event = {"type": kind, "sequence_number": number, **fields}
        yield Frame(after, b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(event)))


def _events(reply: Reply, total: int) -> Iterator[tuple[int, str, dict[str, object]]]:
    started = msgspec.structs.replace(
        reply.response, status="in_progress", incomplete_details=None, output=(), usage=None
    )
    yield 0, "response.created", {"response": started}
    yield 0, "response.in_progress", {"response": started}
    place: dict[str, object] = {"output_index": 0, "item_id": reply.item.id}
    if isinstance(reply.item, Message):
        yield from _message_events(reply.item, reply.tokens, place | {"content_index": 0})
    else:
        yield from _call_events(reply.item, reply.tokens, place)
    yield total, "response.output_item.done", {"output_index": 0, "item": reply.item}
    yield total, f"response.{reply.response.status}", {"response": reply.response}


def _message_events(
    item: Message, tokens: tuple[str, ...], place: dict[str, object]
) -> Iterator[tuple[int, str, dict[str, object]]]:
    empty = msgspec.structs.replace(item, status="in_progress", content=())
    (whole,) = item.content
    yield 0, "response.output_item.added", {"output_index": 0, "item": empty}
    yield 0, "response.content_part.added", {**place, "part": OutputText("")}
    for nth, token in enumerate(tokens, start=1):
        yield nth, "response.output_text.delta", {**place, "delta": token, "logprobs": ()}
    yield len(tokens), "response.output_text.done", {**place, "text": whole.text, "logprobs": ()}
    yield len(tokens), "response.content_part.done", {**place, "part": whole}


def _call_events(
    item: FunctionCall, tokens: tuple[str, ...], place: dict[str, object]
) -> Iterator[tuple[int, str, dict[str, object]]]:
    empty = msgspec.structs.replace(item, status="in_progress", arguments="")
    yield 0, "response.output_item.added", {"output_index": 0, "item": empty}
    for nth, token in enumerate(tokens, start=1):
        yield nth, "response.function_call_arguments.delta", {**place, "delta": token}
    done = {**place, "arguments": item.arguments, "name": item.name}
    yield len(tokens), "response.function_call_arguments.done", done
