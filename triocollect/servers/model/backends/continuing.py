"""What is asked for the rest of an answer, and where a stop string ends it. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.model.backends.asking import ChatRequest
from triocollect.servers.model.backends.generated import Mark, Prefix

HALF: Final = "\ufffd"  # what a tokenizer writes for a part of a character
_LIMITS: Final = ("max_completion_tokens", "max_tokens", "min_tokens")
# Of a chat, not of a text that goes on.
_CHAT_ONLY: Final = frozenset(
    {"add_generation_prompt", "chat_template", "chat_template_kwargs", "continue_final_message", "documents"}
    | {
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "tool_choice",
    }
    | {"tools", "top_logprobs"}
)


class Order(msgspec.Struct, frozen=True):
    """A request for the rest, and the prefix that it goes on after: the one that was cut, or less of it."""

    path: str
    body: JsonObject
    prefix: Prefix


def tokens_left(request: ChatRequest, prefix: Prefix) -> int | None:
    """How many tokens may still come; None: as many as the backend likes."""
    for name in _LIMITS[:2]:
        limit = request.get(name)
        if isinstance(limit, int):
            return max(0, limit - prefix.tokens)
    return None


def after_text(request: ChatRequest, prefix: Prefix, *, path: str, flagged: bool) -> Order | None:
    """The text as the last message. `flagged`: by `continue_final_message`.

    Templates trim a message, and no text has half a character: so it goes back to the last token after which
    it ends in neither. None where there is no such token.
    """
    whole = cut_back(prefix)
    messages = request["messages"]
    if whole is None or not isinstance(messages, list):
        return None
    said: Json = {"role": "assistant", "content": whole.text}
    flags: JsonObject = {"continue_final_message": True, "add_generation_prompt": False} if flagged else {}
    return Order(path, _lowered(request, whole) | {"messages": [*messages, said]} | flags, whole)


def after_tokens(request: ChatRequest, prefix: Prefix, prompt: Sequence[int], *, path: str) -> Order:
    """Prompt and prefix as ids; the rest is told as ids too.

    The limit is always said: without one `/completions` ends after 16 tokens, unlike a chat.
    """
    kept = {name: one for name, one in _lowered(request, prefix).items() if name not in _CHAT_ONLY}
    ids: JsonObject = {"prompt": [*prompt, *prefix.ids], "max_tokens": tokens_left(request, prefix)}
    return Order(path, kept | ids | {"return_token_ids": True}, prefix)


def after_tokens_natively(request: ChatRequest, prefix: Prefix, prompt: Sequence[int]) -> Order:
    """The same in the words of llama.cpp's `/completion`."""
    kept = {name: one for name, one in _lowered(request, prefix).items() if name not in _CHAT_ONLY}
    left = tokens_left(request, prefix)
    ids: JsonObject = {"prompt": [*prompt, *prefix.ids], "n_predict": -1 if left is None else left}
    return Order("/completion", kept | ids | {"return_tokens": True}, prefix)


def _lowered(request: ChatRequest, prefix: Prefix) -> JsonObject:
    lowered: JsonObject = {}
    for name in _LIMITS:
        if isinstance(limit := request.get(name), int):
            lowered[name] = max(0, limit - prefix.tokens)
    return request | lowered


def cut_back(prefix: Prefix) -> Prefix | None:
    """The longest part of it that ends at a token, and in a character that is whole and no white space."""
    for mark in reversed(prefix.marks):
        text = prefix.text[: mark.chars]
        if text and text == text.rstrip() and not text.endswith(HALF):
            return shortened(prefix, mark)
    return None


def shortened(prefix: Prefix, mark: Mark) -> Prefix:
    """The part of it up to this boundary."""
    whole_told = len(prefix.told) == prefix.tokens
    return replace(
        prefix,
        text=prefix.text[: mark.chars],
        tokens=mark.tokens,
        ids=prefix.ids[: mark.tokens],
        logprobs=prefix.logprobs[: mark.tokens],
        marks=tuple(one for one in prefix.marks if one.tokens <= mark.tokens),
        told=prefix.told[: mark.tokens] if whole_told else prefix.told,
    )


def stop_strings(request: ChatRequest) -> tuple[str, ...]:
    """The stop strings that it names."""
    named = request.get("stop")
    listed = named if isinstance(named, list) else [named]
    return tuple(one for one in listed if isinstance(one, str) and one)


def may_be_stopping(request: ChatRequest, text: str) -> bool:
    """Whether it ends with a part of a stop string."""
    return any(text.endswith(stop[:part]) for stop in stop_strings(request) for part in range(1, len(stop)))


def stopped_at(request: ChatRequest, text: str) -> int | None:
    """How much of the text is the answer, by the stop string that is complete first; None without one."""
    places = [(text.find(stop), len(stop)) for stop in stop_strings(request)]
    found = [(begins + length, begins) for begins, length in places if begins >= 0]
    if not found:
        return None
    ends, begins = min(found)
    return ends if request.get("include_stop_str_in_output") else begins
