"""Which ways a backend has, found by asking it: a few requests of a few tokens each.

What is not shown is taken not to be there. Names are not believed, except SGLang's own: it takes every field.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, final

import httpx
import msgspec
import trio
from msgspec.structs import replace

from triocollect.errors import PeerError
from triocollect.protocol.values import NOT_JSON, Json, JsonObject
from triocollect.servers.model.backends.chunks import Piece, piece_of
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.backends.ways import Findings, decide
from triocollect.servers.model.events import EventStream
from triocollect.servers.peers import Peer, PeerReply, answered_badly

STEP_S: Final = 60.0  # for one of the requests; a busy backend lets them queue
_ABSENT: Final = frozenset({404, 405, 501})
_NOT_READY: Final = frozenset({429, 503})  # a model that is being loaded
QUESTION: Final[Json] = {"role": "user", "content": "Count from one to nine, in words."}
_OF_A_PROMPT: Final = ("model", "messages", "chat_template_kwargs", "reasoning_effort")
_V1: Final = re.compile(r"/v1/?$")


class _Model(msgspec.Struct, frozen=True):
    id: str
    owned_by: str | None = None


class _Models(msgspec.Struct, frozen=True):
    data: tuple[_Model, ...] = ()


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int


class _Counted(msgspec.Struct, frozen=True):
    usage: _Usage


class _Prompt(msgspec.Struct, frozen=True):
    prompt: str


class _Tokens(msgspec.Struct, frozen=True):
    tokens: tuple[int, ...]


def root_of(url: str) -> str:
    """The URL without a closing `/v1`: llama.cpp's own paths and vLLM's tokenizer are beside it."""
    return _V1.sub("", url.rstrip("/"))


def pieces_of(body: bytes) -> Sequence[Piece]:
    """What a whole answer says, streamed or not. Raises PeerError."""
    if body.lstrip().startswith(b"{"):
        return [piece_of(body)]
    try:
        return [piece_of(event.data) for event in EventStream().feed(body + b"\n\n")]
    except NOT_JSON as error:
        raise PeerError(f"an event is not JSON: {error}", passing=False) from error


@final
class Probe:
    """Asks one backend. `model`: as it is to be called; None: as it calls what it serves first."""

    def __init__(self, backend: Peer, url: str, headers: Mapping[str, str], model: str | None) -> None:
        self._backend: Final = backend
        self._headers: Final = headers
        self._model = model
        self._given_v1: Final = _V1.search(url) is not None

    async def findings(self) -> Findings:
        """What it has. Raises PeerError where it cannot be reached, or is not ready."""
        seen = await self._served()
        self._model = self._model or seen.model
        status, _ = await self._post(f"{seen.api}/responses", {})
        seen = replace(seen, responses=status not in _ABSENT)
        seen, said = await self._chat(seen)
        if not seen.chat:
            return seen
        if seen.ids is not None:
            seen = await self._with_tokens(seen, said)
        if await self._knows_flag(seen):
            return replace(seen, continues=True)
        return replace(seen, prefills=await self._prefills(seen))

    async def _served(self) -> Findings:
        """Where its interface is, and which models it tells of. Some tell of none."""
        for api in ("/v1",) if self._given_v1 else ("", "/v1"):
            reply = await self._in_time(f"{api}/models", self._backend.get(f"{api}/models", self._headers))
            if reply.status == httpx.codes.OK:
                try:
                    models = msgspec.json.decode(reply.body, type=_Models, strict=False).data
                except NOT_JSON:
                    models = ()
                first = models[0] if models else _Model("")
                listed = tuple(one.id for one in models if one.id)
                return Findings(api=api, model=first.id or None, models=listed, owner=first.owned_by)
            if reply.status not in _ABSENT:
                raise answered_badly(self._backend.name, f"{api}/models", reply)
        return Findings(api="/v1" if self._given_v1 else "")

    async def _chat(self, seen: Findings) -> tuple[Findings, Piece]:
        """Whether it has a chat, and what that tells of tokens: asked for more than all understand."""
        asked = self._question(max_tokens=4, stream=True)
        usage: JsonObject = {"include_usage": True, "continuous_usage_stats": True}
        more: JsonObject = {
            "logprobs": True,
            "top_logprobs": 1,
            "return_token_ids": True,
            "stream_options": usage,
        }
        status, body = await self._post(f"{seen.api}/chat/completions", asked | more)
        if status in _ABSENT:
            return seen, Piece()
        seen = replace(seen, chat=True)
        if status != httpx.codes.OK:
            return seen, Piece()
        try:
            pieces = pieces_of(body)
        except PeerError:
            return seen, Piece()
        tokens = [one for piece in pieces for one in piece.ids]
        prompt = next((piece.prompt_ids for piece in pieces if piece.prompt_ids), ())
        counted = sum(piece.usage is not None for piece in pieces) > 1
        way = None if not tokens else "token_ids" if b'"token_ids"' in body else "logprobs"
        return replace(seen, usage=counted, ids=way), Piece(ids=tuple(tokens), prompt_ids=prompt)

    async def _with_tokens(self, seen: Findings, said: Piece) -> Findings:
        """Which path goes on after ids, if one does."""
        line = Line(self._backend, self._headers, seen, decide(seen, "on"))
        prompt = said.prompt_ids or await prompt_tokens(line, self._question())
        if not prompt:
            return seen
        rest: JsonObject = {"prompt": [*prompt, *said.ids], "temperature": 0, "stream": True}
        if seen.ids == "token_ids":
            body = rest | self._named() | {"max_tokens": 1, "return_token_ids": True}
            taken = await self._speaks(f"{seen.api}/completions", body)
            whole = await text_of(line, said.ids, self._model)
            return replace(seen, takes_ids="completions" if taken else None, detokenizes=whole is not None)
        taken = await self._speaks("/completion", rest | {"n_predict": 1, "return_tokens": True})
        return replace(seen, takes_ids="completion" if taken else None)

    async def _speaks(self, path: str, body: JsonObject) -> bool:
        status, answer = await self._post(path, body)
        try:
            return status == httpx.codes.OK and any(piece.ids or piece.text for piece in pieces_of(answer))
        except PeerError:
            return False

    async def _knows_flag(self, seen: Findings) -> bool:
        """Who knows both flags refuses both at once (vLLM, llama.cpp)."""
        if seen.owner == "sglang":
            return True
        both: JsonObject = {"continue_final_message": True, "add_generation_prompt": True}
        asked = self._question("One") | both
        status, body = await self._post(f"{seen.api}/chat/completions", asked)
        if status in {400, 422} and b"continue_final_message" in body:
            return True
        only: JsonObject = {"continue_final_message": True, "add_generation_prompt": False}
        flagged, plain = await self._length(seen, "One", only), await self._length(seen, "One", {})
        return flagged is not None and plain is not None and flagged < plain

    async def _prefills(self, seen: Findings) -> bool:
        """Whether a last message of the assistant costs its words, and no turn after it."""
        none, one, three = [await self._length(seen, said, {}) for said in (None, "one", "one one one")]
        if none is None or one is None or three is None:
            return False
        word = (three - one) / 2
        return word > 0 and one - word - none <= 0

    async def _length(self, seen: Findings, said: str | None, flags: JsonObject) -> int | None:
        """How many tokens the prompt has by the backend's count."""
        status, body = await self._post(f"{seen.api}/chat/completions", self._question(said) | flags)
        try:
            return (
                msgspec.json.decode(body, type=_Counted).usage.prompt_tokens
                if status == httpx.codes.OK
                else None
            )
        except NOT_JSON:
            return None

    def _named(self) -> JsonObject:
        return {} if self._model is None else {"model": self._model}

    def _question(self, said: str | None = None, *, max_tokens: int = 1, stream: bool = False) -> JsonObject:
        answer: list[Json] = [] if said is None else [{"role": "assistant", "content": said}]
        settings: JsonObject = {"max_tokens": max_tokens, "temperature": 0, "stream": stream}
        return self._named() | settings | {"messages": [QUESTION, *answer]}

    async def _post(self, path: str, body: JsonObject) -> tuple[int, bytes]:
        asked = self._backend.ask(path, msgspec.json.encode(body), self._headers)
        reply = await self._in_time(path, asked)
        if reply.status in _NOT_READY:
            raise answered_badly(self._backend.name, path, reply)
        return reply.status, reply.body

    async def _in_time(self, path: str, asked: Awaitable[PeerReply]) -> PeerReply:
        with trio.move_on_after(STEP_S):
            return await asked
        raise PeerError(f"{self._backend.name} has not answered {path} in {STEP_S:g} s", passing=True)


async def prompt_tokens(line: Line, request: JsonObject) -> tuple[int, ...]:
    """What a backend makes of the messages of a chat; nothing where it cannot be asked.

    llama.cpp's server writes the prompt, and makes tokens of it; vLLM does it in one. Raises PeerError.
    """
    asked = {name: request[name] for name in _OF_A_PROMPT if name in request}
    template = await line.peer.ask("/apply-template", msgspec.json.encode(asked), line.headers)
    try:
        text = msgspec.json.decode(template.body, type=_Prompt).prompt
        order: JsonObject = {"content": text, "add_special": True, "parse_special": True}
    except NOT_JSON:
        order = asked | {"add_generation_prompt": True}
    tokens = await line.peer.ask("/tokenize", msgspec.json.encode(order), line.headers)
    try:
        return msgspec.json.decode(tokens.body, type=_Tokens).tokens
    except NOT_JSON:
        return ()


async def text_of(line: Line, ids: Sequence[int], model: str | None) -> str | None:
    """The text of these tokens by vLLM's tokenizer; None where it cannot be asked. Raises PeerError."""
    order = {"tokens": ids} | ({} if model is None else {"model": model})
    reply = await line.peer.ask("/detokenize", msgspec.json.encode(order), line.headers)
    try:
        return msgspec.json.decode(reply.body, type=_Prompt).prompt
    except NOT_JSON:
        return None
