"""The last words of a rollout, out of the response object that /verify is given. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

_NO_WORDS: Final = Raw(b'""')


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"
    content: Raw = _NO_WORDS


class _Response(msgspec.Struct, frozen=True):
    output: tuple[_Item, ...]


class _Request(msgspec.Struct, frozen=True):
    response: _Response


class _Part(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


_decode_request: Final = msgspec.json.Decoder(_Request).decode
_decode_content: Final = msgspec.json.Decoder(str | tuple[_Part, ...] | None).decode


def final_answer(request: bytes) -> str:
    """The text of the last message, if no tool was called after it; else the empty string.

    A rollout that was cut off in the middle of its tool calls has answered nothing, whatever it said between
    them. Raises msgspec.DecodeError where `request` is not a verify request.
    """
    return _last_message(reversed(_decode_request(request).response.output))


def _last_message(backwards: Iterable[_Item]) -> str:
    for item in backwards:
        if item.type == "message":
            return _text(_decode_content(item.content))
        if item.type in ("function_call", "function_call_output"):
            break
    return ""


def _text(content: str | tuple[_Part, ...] | None) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content or () if part.type == "output_text")
