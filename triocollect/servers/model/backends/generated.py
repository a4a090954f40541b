"""What has come of one answer: text, tokens where they are told, and why it cannot be cut, if it cannot."""

from collections.abc import Sequence
from typing import Final, TypeVar, final

import msgspec
from msgspec import Raw

from triocollect.protocol.inference import StagedCut
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.backends.chunks import Piece, ToolPiece, Usage

T = TypeVar("T")

LAST_MARKS: Final = 16  # token boundaries that a cut remembers: to go back to where a text can be given back


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A boundary: after so many tokens, so many characters have come."""

    tokens: int
    chars: int


class Prefix(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of an answer. `ids`, `logprobs`: of all its tokens, or none. `marks`: last boundaries.

    Where there are ids, `text` may lag behind them: a backend holds back half of a character, and what may
    be a stop string. `told`: log-probabilities in the backend's words, where the caller has asked for them.
    `prompt_tokens`, `prompt_ids`: what it was generated after, where that was told.
    """

    text: str
    tokens: int
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()
    reasoning: str = ""
    told: tuple[Raw, ...] = ()
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] = ()


class _Own(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rest of a Prefix, as it is staged."""

    marks: tuple[Mark, ...] = ()
    reasoning: str = ""
    told: tuple[Raw, ...] = ()
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] = ()


@final
class Generated:
    """One answer as it comes, after the prefix that it goes on from, if it does.

    `tells`: its caller has asked for log-probabilities.
    """

    def __init__(self, prefix: Prefix | None = None, *, tells: bool = False) -> None:
        begun = Prefix(text="", tokens=0) if prefix is None else prefix
        self._texts: Final = [begun.text]
        self._reasonings: Final = [begun.reasoning]
        self._marks = list(begun.marks)
        self._ids: Final = list(begun.ids)
        self._logprobs: Final = list(begun.logprobs)
        self._prompt_ids = begun.prompt_ids
        self.told: Final[list[Raw] | None] = list(begun.told) if tells else None
        self.before: Final = begun.tokens
        self.tokens = begun.tokens
        self.chars = len(begun.text)
        self.prompt_tokens = begun.prompt_tokens  # without the prefix
        self.refusal = ""
        self.tools: Final[list[ToolPiece]] = []
        self.finish: str | None = None
        self.details: Usage | None = None  # as the backend told it last
        self.model = ""
        self.created = 0

    @property
    def text(self) -> str:
        """All of the text."""
        return "".join(self._texts)

    def text_after(self, chars: int) -> str:
        """The text but for its first so many characters; costs no more than what is left is long."""
        left, pieces = self.chars - chars, list[str]()
        for piece in reversed(self._texts):
            if left <= 0:
                break
            pieces.append(piece[-left:])
            left -= len(piece)
        return "".join(reversed(pieces))

    @property
    def reasoning(self) -> str:
        """All of the reasoning."""
        return "".join(self._reasonings)

    def add(self, piece: Piece) -> None:
        """The next chunk."""
        self._count(piece)
        if piece.text:
            self._texts.append(piece.text)
            self.chars += len(piece.text)
            self._marks = [*self._marks[1 - LAST_MARKS :], Mark(self.tokens, self.chars)]
        if piece.reasoning:
            self._reasonings.append(piece.reasoning)
        if self.told is not None:
            self.told.extend(piece.told)
        self.refusal += piece.refusal
        self.tools.extend(piece.tools)
        self.finish = piece.finish or self.finish
        self.model = piece.model or self.model
        self.created = piece.created or self.created

    def _count(self, piece: Piece) -> None:
        """How many tokens it brings: as the backend counts them, as it lists them, or taken for one."""
        usage = piece.usage
        if usage is not None and usage.completion_tokens:  # some say 0 until the end
            self.tokens = self.before + usage.completion_tokens
        else:
            said = bool(piece.text or piece.reasoning or piece.tools)
            self.tokens += len(piece.ids or piece.logprobs) or said
        self._ids.extend(piece.ids)
        self._logprobs.extend(piece.logprobs)
        if usage is not None:
            self.details = usage
            asked = usage.prompt_tokens
            if self.prompt_tokens is None and asked is not None and asked >= self.before:
                self.prompt_tokens = asked - self.before  # fewer than the prefix has: it does not count that
        if piece.prompt_ids and not self.before:
            self._prompt_ids = piece.prompt_ids

    def end_at(self, chars: int) -> None:
        """The answer is over, after so many characters, by a stop string."""
        self._texts[:] = [self.text[:chars]]
        self.chars = chars
        self.finish = "stop"

    @property
    def uncuttable(self) -> str | None:
        """Why nothing of this could be given back to the backend; None when it can be."""
        if self.tools:
            return "a tool call has begun"
        if self.refusal:
            return "it is a refusal"
        if not self.chars:
            return "it is in its reasoning" if self.reasoning else "nothing of it has come yet"
        return None

    def prefix(self) -> Prefix:
        """What has come so far."""
        return Prefix(
            text=self.text,
            tokens=self.tokens,
            ids=_of_each(self._ids, self.tokens),
            logprobs=_of_each(self._logprobs, self.tokens),
            marks=tuple(self._marks),
            reasoning=self.reasoning,
            told=tuple(self.told or ()),
            prompt_tokens=self.prompt_tokens,
            prompt_ids=self._prompt_ids,
        )


def _of_each(listed: Sequence[T], tokens: int) -> tuple[T, ...]:
    """One for each token; none where some were not told."""
    return tuple(listed) if len(listed) == tokens else ()


def staged(prefix: Prefix, call_id: str, request: str, policy: str) -> StagedCut:
    """A prefix as it is written down."""
    own = _Own(prefix.marks, prefix.reasoning, prefix.told, prefix.prompt_tokens, prefix.prompt_ids)
    return StagedCut(
        call_id=call_id,
        request=request,
        policy=policy,
        tokens=prefix.tokens,
        text=prefix.text,
        token_ids=prefix.ids,
        logprobs=prefix.logprobs,
        own=Raw(msgspec.json.encode(own)),
    )


def given_back(cut: StagedCut) -> Prefix | None:
    """The inverse; None for what another kind of worker has staged."""
    try:
        own = msgspec.json.decode(cut.own, type=_Own) if isinstance(cut.own, Raw) else _Own()
    except NOT_JSON:
        return None
    return Prefix(
        text=cut.text,
        tokens=cut.tokens,
        ids=cut.token_ids,
        logprobs=cut.logprobs,
        marks=own.marks,
        reasoning=own.reasoning,
        told=own.told,
        prompt_tokens=own.prompt_tokens,
        prompt_ids=own.prompt_ids,
    )
