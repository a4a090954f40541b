"""What a participant promises, and what came of trying it. Pure."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import msgspec
from attrs import frozen

from triocollect.conformance.peer import Peer
from triocollect.errors import BrokenPromiseError
from triocollect.protocol.messages import Kind, Mode

Verdict: TypeAlias = Literal["kept", "BROKEN", "untried"]
Try: TypeAlias = Callable[[Peer], Awaitable[None]]

ANY_KIND: Final[tuple[Kind, ...]] = ("environment", "model", "agent", "resources")
ANY_MODE: Final[tuple[Mode, ...]] = ("exported", "stateless", "restart_only")


class Need(StrEnum):
    """What a promise cannot be tried without."""

    DIRECTORY = "the directory that the server writes into: --checkpoint-dir"
    FRESH = "a process that has served nothing since its start: start it anew, and try again"
    RESTART = "the server started anew in between: --restart COMMAND"


@frozen
class Promise:
    """One sentence about a participant, and how it is tried.

    `attempt` returns where the promise is kept, and raises BrokenPromiseError or UntriedError. `look`: where
    the author of a server that breaks it looks first. `builds_on`: numbers without which it means nothing.
    """

    number: int
    section: str
    says: str
    attempt: Try
    look: str
    needs: tuple[Need, ...] = ()
    kinds: tuple[Kind, ...] = ANY_KIND
    modes: tuple[Mode, ...] = ANY_MODE
    builds_on: tuple[int, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one promise. `asked`, `answered`, `expected`, `look` where broken; `why` where untried."""

    number: int
    section: str
    says: str
    verdict: Verdict
    asked: str = ""
    answered: str = ""
    expected: str = ""
    look: str = ""
    why: str = ""


def concerns(promise: Promise, kind: Kind, mode: Mode) -> bool:
    """Whether such a participant promises it at all."""
    return kind in promise.kinds and mode in promise.modes


_ALL_BUILD_ON: Final = 2  # whatever several processes answer means nothing


def groundless(promise: Promise, findings: Sequence[Finding]) -> str | None:
    """Why it means nothing after what was found; None when it can be tried."""
    needed = (_ALL_BUILD_ON, *promise.builds_on)
    on = [one.number for one in findings if one.verdict == "BROKEN" and one.number in needed]
    if not on:
        return None
    return f"it builds on {', '.join(map(str, on))}, which {'is' if len(on) == 1 else 'are'} broken"


def kept(promise: Promise) -> Finding:
    """It was tried, and is kept."""
    return Finding(number=promise.number, section=promise.section, says=promise.says, verdict="kept")


def untried(promise: Promise, why: str) -> Finding:
    """It could not be tried."""
    return msgspec.structs.replace(kept(promise), verdict="untried", why=why)


def broken(promise: Promise, how: BrokenPromiseError) -> Finding:
    """It was tried, and is broken."""
    return msgspec.structs.replace(
        kept(promise),
        verdict="BROKEN",
        asked=how.asked,
        answered=how.answered,
        expected=how.expected,
        look=promise.look,
    )
