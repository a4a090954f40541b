"""What a Responses request asks of the worker, read out of its JSON. Pure."""

from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Raw

from triocollect.protocol.values import NOT_JSON
from triocollect.servers.inference.tokens import count

NULL: Final = Raw(b"null")


class Echo(msgspec.Struct, frozen=True):
    """Fields of the request that the response repeats as they came; null where they are absent."""

    instructions: Raw = NULL
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    metadata: Raw = NULL
    model: Raw = NULL
    parallel_tool_calls: Raw = NULL
    temperature: Raw = NULL
    tool_choice: Raw = NULL
    tools: Raw = NULL
    top_p: Raw = NULL


class Conversation(msgspec.Struct, frozen=True):
    """A request, as far as the script looks at it.

    `task` is the text of the last user message, `results` are the tool outputs since, in their order.
    `digest` stands for the whole request apart from how it is delivered, `dice` for the words of everybody
    but the model and its tools: it stays the same over all turns of a rollout, and a seed changes it.
    """

    task: str
    results: tuple[str, ...]
    tools: frozenset[str]
    input_tokens: int
    digest: bytes
    dice: int
    stream: bool
    echo: Echo


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"
    role: str = "user"
    content: Raw = NULL
    arguments: Raw = NULL
    output: Raw = NULL


class _Tool(msgspec.Struct, frozen=True):
    name: str | None = None


class _Request(msgspec.Struct, frozen=True):
    input: str | tuple[_Item, ...]
    instructions: str | None = None
    metadata: dict[str, Raw] | None = None
    seed: Raw = NULL
    stream: bool | None = None
    tools: tuple[_Tool, ...] | None = None


class _ExtraBody(msgspec.Struct, frozen=True):
    seed: Raw = NULL


class _Part(msgspec.Struct, frozen=True):
    text: str = ""


_decode: Final = msgspec.json.Decoder(_Request).decode
_decode_echo: Final = msgspec.json.Decoder(Echo).decode
_decode_whole: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_text: Final = msgspec.json.Decoder(str | tuple[_Part, ...] | None).decode


def read(body: bytes) -> Conversation:
    """Raises msgspec.DecodeError, in words, where the body is no request of the Responses API."""
    request, echo = _decode(body), _decode_echo(body)
    items = (
        (_Item(content=Raw(msgspec.json.encode(request.input))),)
        if isinstance(request.input, str)
        else request.input
    )
    texts = [(_role(item), _text(item)) for item in items]
    start = max((place for place, (role, _) in enumerate(texts) if role == "user"), default=-1)
    words = [request.instructions or ""] + [text for role, text in texts if role not in ("assistant", "tool")]
    return Conversation(
        task=texts[start][1] if start >= 0 else "",
        results=tuple(text for role, text in texts[start + 1 :] if role == "tool"),
        tools=frozenset(tool.name for tool in request.tools or () if tool.name is not None),
        input_tokens=count(request.instructions or "") + sum(count(text) for _, text in texts),
        digest=_digest(_decode_whole(body)),
        dice=_dice(words, _seed(request)),
        stream=bool(request.stream),
        echo=echo,
    )


def _role(item: _Item) -> str:
    match item.type:
        case "message":
            return item.role
        case "function_call_output":
            return "tool"
        case _:
            return "assistant"


def _text(item: _Item) -> str:
    match item.type:
        case "message":
            text = _decode_text(item.content)
        case "function_call":
            text = _decode_text(item.arguments)
        case "function_call_output":
            text = _decode_text(item.output)
        case _:  # reasoning and the like: nothing that the script reads
            return ""
    return text if isinstance(text, str) else "".join(part.text for part in text or ())


def _digest(request: dict[str, object]) -> bytes:
    request.pop("stream", None)
    return blake2b(msgspec.json.encode(request, order="sorted"), digest_size=16).digest()


def _dice(words: list[str], seed: bytes) -> int:
    return int.from_bytes(blake2b(msgspec.json.encode(words) + seed, digest_size=8).digest(), "big")


def _seed(request: _Request) -> bytes:
    """The request's `seed`, or that of `metadata.extra_body` (JSON in a string, as Gym 0.7.0 carries it)."""
    if request.seed != NULL or request.metadata is None or "extra_body" not in request.metadata:
        return bytes(request.seed)
    try:
        extra = msgspec.json.decode(request.metadata["extra_body"], type=str)
        return bytes(msgspec.json.decode(extra, type=_ExtraBody).seed)
    except NOT_JSON:
        return bytes(NULL)
