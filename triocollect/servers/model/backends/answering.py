"""An answer of a chat completions backend as a Response object. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from triocollect.servers.model.backends.chunks import NO_RAW, ToolPiece
from triocollect.servers.model.backends.generated import Generated

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ECHOED: Final = {  # of the request, and what it says where it does not say it
    "instructions": None,
    "max_output_tokens": None,
    "metadata": None,
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": (),
    "top_p": None,
}


class _Text(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str
    annotations: tuple[()] = ()
    logprobs: tuple[Raw, ...] | None = None


class _Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class _Summary(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    text: str


class _Message(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    id: str
    status: str
    content: tuple[_Text | _Refusal, ...]
    role: str = "assistant"


class _FunctionCall(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    id: str
    status: str
    call_id: str
    name: str
    arguments: str


class _Reasoning(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning"):
    """Its text as a summary, which is where Gym 0.7.0 keeps it."""

    id: str
    summary: tuple[_Summary, ...]


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: Raw
    output_tokens_details: Raw


_Item: TypeAlias = _Message | _FunctionCall | _Reasoning


def response_of(asked: Mapping[str, Raw], answer: Generated, call_id: str) -> bytes:
    """The Response object, as JSON, of an answer that is over."""
    reason = _INCOMPLETE.get(answer.finish or "")
    status = "completed" if reason is None else "incomplete"
    return msgspec.json.encode(
        {
            "id": f"resp_{call_id}",
            "object": "response",
            "created_at": answer.created,
            "status": status,
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": answer.model or asked.get("model"),
            "output": tuple(_items(answer, status, call_id)),
            "usage": _usage(answer),
            **{name: asked.get(name, default) for name, default in _ECHOED.items()},
        }
    )


def _items(answer: Generated, status: str, call_id: str) -> Iterable[_Item]:
    """In the order in which a model says them. An answer without anything is an empty message."""
    if answer.reasoning:
        yield _Reasoning(f"rs_{call_id}", (_Summary(answer.reasoning),))
    calls = tuple(_calls(answer.tools, status, call_id))
    text = answer.text
    if answer.refusal:
        yield _Message(f"msg_{call_id}", status, (_Refusal(answer.refusal),))
    elif text.strip() or not calls:
        told = None if answer.told is None else tuple(answer.told)
        yield _Message(f"msg_{call_id}", status, (_Text(text, (), told),))
    yield from calls


def _calls(pieces: Iterable[ToolPiece], status: str, call_id: str) -> Iterable[_FunctionCall]:
    """Tool calls put together. A piece without an index begins a call if it has a name, else it goes on."""
    heads: dict[int, tuple[str, str]] = {}
    arguments: dict[int, str] = {}
    for piece in pieces:
        named = piece.function is not None and piece.function.name
        last = len(heads) - 1
        index = piece.index if piece.index is not None else last + bool(named or last < 0)
        identity, name = heads.get(index, ("", ""))
        heads[index] = (identity or piece.id or "", name or (named or ""))
        said = "" if piece.function is None else piece.function.text
        arguments[index] = arguments.get(index, "") + said
    for index, (identity, name) in sorted(heads.items()):
        own = f"{call_id}_{index}"
        yield _FunctionCall(f"fc_{own}", status, identity or f"call_{own}", name, arguments[index])


def _usage(answer: Generated) -> _Usage | None:
    """None where the backend tells none."""
    told = answer.details
    if told is None or answer.prompt_tokens is None:
        return None
    of_input = told.prompt_tokens_details
    of_output = told.completion_tokens_details
    return _Usage(
        answer.prompt_tokens,
        answer.tokens,
        answer.prompt_tokens + answer.tokens,
        Raw(b'{"cached_tokens":0}') if of_input == NO_RAW else of_input,
        Raw(b'{"reasoning_tokens":0}') if of_output == NO_RAW else of_output,
    )
