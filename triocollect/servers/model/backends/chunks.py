"""What backends stream: chunks of chat completions, of completions, and of llama.cpp's `/completion`. Pure.

Read leniently: a field that one of them leaves out or adds is no fault. `Piece` is what one chunk adds.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Raw

from triocollect.errors import PeerError
from triocollect.protocol.inference import Tokens
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.peers import told

NO_RAW: Final = Raw(b"null")
_Byte: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Usage(msgspec.Struct, frozen=True):
    """Tokens of the whole answer so far, the prompt's as well."""

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: Raw = NO_RAW
    completion_tokens_details: Raw = NO_RAW


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, Raw] | None = None  # an object where somebody is unlike everybody else

    @property
    def text(self) -> str:
        """The characters of the arguments."""
        if isinstance(self.arguments, dict):
            return msgspec.json.encode(self.arguments).decode()
        return self.arguments or ""


class ToolPiece(msgspec.Struct, frozen=True):
    """A part of one tool call: its head, some characters of its arguments, or both."""

    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Logprob(msgspec.Struct, frozen=True):
    """One token; llama.cpp's server tells its id here, and most say which bytes it is."""

    logprob: float | None = None
    bytes: tuple[_Byte, ...] | None = None
    id: int | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the newer vLLM's name
    refusal: str | None = None
    tool_calls: tuple[ToolPiece, ...] | None = None


class _Choice(msgspec.Struct, frozen=True):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None  # of an answer that is not streamed
    text: str | None = None  # of completions
    finish_reason: str | None = None
    logprobs: Raw = NO_RAW
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class _ChatLogprobs(msgspec.Struct, frozen=True):
    content: tuple[Raw, ...] | None = None


class _Chunk(msgspec.Struct, frozen=True):
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: tuple[_Choice, ...] | None = None
    usage: Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    error: Raw = NO_RAW
    # llama.cpp's /completion
    content: str | None = None
    tokens: tuple[int, ...] | None = None
    stop: bool | None = None
    stop_type: str | None = None
    tokens_evaluated: Tokens | None = None
    tokens_predicted: Tokens | None = None
    completion_probabilities: tuple[Raw, ...] | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one chunk adds to the answer. `ids`, `logprobs`: of its tokens, in so far as they are told.

    `told`: log-probabilities in the backend's own words. `usage`: of the answer so far.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tools: tuple[ToolPiece, ...] = ()
    ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    told: tuple[Raw, ...] = ()
    finish: str | None = None
    usage: Usage | None = None
    created: int | None = None
    model: str | None = None


_decode: Final = msgspec.json.Decoder(_Chunk, strict=False).decode
_FINISHES: Final = {"limit": "length", "eos": "stop", "word": "stop"}
_LOST: Final = frozenset({"abort", "error"})


def piece_of(data: bytes) -> Piece:
    """The piece in the data of one event, or in a whole answer that is not streamed.

    Raises PeerError for an error that the backend tells there, and for what is not JSON.
    """
    try:
        chunk = _decode(data)
        if chunk.error != NO_RAW or chunk.object == "error":
            raise PeerError(f"the backend failed: {told(data)}", passing=True)
        piece = _native(chunk) if chunk.content is not None else _piece(chunk)
    except NOT_JSON as error:
        raise PeerError(f"the backend sent a chunk that is not understood: {error}", passing=False) from error
    if piece.finish in _LOST:
        raise PeerError("the backend gave the generation up", passing=True)
    return piece


def _piece(chunk: _Chunk) -> Piece:
    first = next((choice for choice in chunk.choices or () if not choice.index), _Choice())
    said = first.delta or first.message or _Delta(content=first.text)
    told = _told(first.logprobs)
    ids = _spelled(said.content or "", told) if first.token_ids is None else first.token_ids
    return Piece(
        text=said.content or "",
        reasoning=said.reasoning_content or said.reasoning or "",
        refusal=said.refusal or "",
        tools=said.tool_calls or (),
        ids=ids,
        prompt_ids=chunk.prompt_token_ids or first.prompt_token_ids or (),
        logprobs=_numbers(told),
        told=told,
        finish=first.finish_reason,
        usage=chunk.usage,
        created=None if chunk.created is None else int(chunk.created),
        model=chunk.model,
    )


def _native(chunk: _Chunk) -> Piece:
    told = chunk.completion_probabilities or ()
    finish = _FINISHES.get(chunk.stop_type or "", "stop") if chunk.stop else None
    return Piece(
        text=chunk.content or "",
        ids=chunk.tokens or (),
        logprobs=_numbers(told),
        told=told,
        finish=finish,
        usage=Usage(chunk.tokens_evaluated, chunk.tokens_predicted),
        model=chunk.model,
    )


def _told(said: Raw) -> tuple[Raw, ...]:
    """Those of chat completions; completions have lists side by side, which say nothing that is needed."""
    return () if said == NO_RAW else msgspec.json.decode(said, type=_ChatLogprobs).content or ()


def _numbers(told: tuple[Raw, ...]) -> tuple[float, ...]:
    numbers = [entry.logprob for entry in map(_entry, told)]
    return tuple(number for number in numbers if number is not None)


def _spelled(text: str, told: tuple[Raw, ...]) -> tuple[int, ...]:
    """The ids of the tokens that this text is spelled with.

    None where the bytes differ: llama.cpp's server leaves out tokens that end inside a character, and those
    that may be a stop string.
    """
    entries = [_entry(one) for one in told]
    spelling = b"".join(bytes(entry.bytes or ()) for entry in entries)
    ids = tuple(entry.id for entry in entries if entry.id is not None)
    return ids if len(ids) == len(entries) and spelling == text.encode() else ()


def _entry(told: Raw) -> _Logprob:
    return msgspec.json.decode(told, type=_Logprob, strict=False)
