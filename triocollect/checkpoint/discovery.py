"""Which servers take part in checkpoints: every one that the run knows is asked once, at its beginning."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import httpx
import msgspec
import trio

from triocollect.checkpoint.line import ControlClient, Line, StrangeError, UnansweredError, is_passing
from triocollect.checkpoint.participants import Participant
from triocollect.errors import ControlError, UsageError
from triocollect.protocol.messages import MOST_COUNTED, VERSION, Capabilities, Kind, Status
from triocollect.protocol.refusals import Code
from triocollect.transport import Transport

PATIENCE_S: Final = 10.0
OWN_PATIENCE_S: Final = 120.0  # with servers that were just started, where one that dies is noticed at once
TELL_AFTER_S: Final = 4.0
CONNECT_S: Final = 10.0
MOST_REPLY_BYTES: Final = 64 << 20  # of a control call
_AGAIN_S: Final = 0.1  # between two questions to a server that is not there yet
_SEVERAL: Final = 8  # questions, of which each of several processes behind one port answers some
_TAKES_NO_PART: Final = frozenset({404, 405, 501})
_TOKEN_IS_WRONG: Final = frozenset({401, 403})


class Candidate(msgspec.Struct, frozen=True):
    """The base URL of a server. With a `kind`, the user says that it takes part, as that."""

    url: str
    kind: Kind | None = None


class Found(msgspec.Struct, frozen=True):
    """A participant and where it stood when it was found."""

    participant: Participant
    status: Status


def control_client(token: str, transport: httpx.AsyncBaseTransport | None = None) -> ControlClient:
    """The client of all control calls, with connections of its own, so rows never make them wait.

    `transport` replaces the network.
    """
    return ControlClient(
        token, transport or Transport(connect_timeout_s=CONNECT_S, max_reply_bytes=MOST_REPLY_BYTES)
    )


async def discover(
    client: ControlClient,
    candidates: Iterable[Candidate],
    *,
    patience_s: float = PATIENCE_S,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Found, ...]:
    """Ask every candidate; those that take part, one per process and instance however often it is named.

    A server without the routes takes no part. `tell` hears who keeps us waiting, once. Raises UsageError,
    every problem at once: a token that is not taken, a server that does not answer in time (leaving it out
    would tear every cut that it has a part in), two servers of one name, several processes behind one port.
    """
    asked = _by_address(candidates)
    found: dict[str, Found] = {}
    problems: dict[str, str] = {}
    untrusting: set[str] = set()
    waiting: dict[str, BaseException | None] = dict.fromkeys(asked)  # what kept those from answering

    async def one(url: str, kind: Kind | None) -> None:
        try:
            if (answer := await _ask(client, url, patience_s, waiting)) is not None:
                found[url] = answer
            if (misfit := _misfit(url, kind, answer)) is not None:
                problems[url] = misfit
        except trio.TooSlowError as late:
            problems[url] = _silence(url, patience_s, late.__cause__)
        except _UntrustingError:
            untrusting.add(url)
        except ControlError as error:
            problems[url] = str(error)
        del waiting[url]

    async with trio.open_nursery() as telling:
        telling.start_soon(_tell_who_is_missing, waiting, patience_s, tell)
        async with trio.open_nursery() as nursery:
            for url, kind in asked.items():
                nursery.start_soon(one, url, kind)
        telling.cancel_scope.cancel()
    distinct, clashes = _distinct([found[url] for url in asked if url in found])
    wrong = _wrong_token([url for url in asked if url in untrusting])
    if told := [*(problems[url] for url in asked if url in problems), *wrong, *clashes]:
        raise UsageError("\n".join(told))
    return distinct


def require_kinds(found: Iterable[Found], asked: Iterable[str]) -> None:
    """Raise UsageError unless an environment and a model take part; `asked` are the servers that do not."""
    kinds = {one.participant.kind for one in found}
    missing = [kind for kind in ("environment", "model") if kind not in kinds]
    if missing:
        others = ", ".join(asked) or "none"
        raise UsageError(
            f"a checkpoint directory needs an environment server and a model server that take part; no "
            f"{' and no '.join(missing)} server does (servers that take no part: {others})"
        )


def unseen_behind(found: Iterable[Found]) -> str | None:
    """What a run should be told whose environment server says nothing of the servers behind it."""
    kinds = {one.participant.kind for one in found}
    missing = [f"no {kind} server" for kind in ("agent", "resources") if kind not in kinds]
    if not missing:
        return None
    return (
        f"{' and '.join(missing)} is known to take part: if the environment server asks any, name it with "
        "--participant KIND=URL; what it holds of a rollout is in no checkpoint otherwise"
    )


def highest_epoch(found: Iterable[Found]) -> int:
    """The highest epoch that a participant has heard of; the run's has to be above it."""
    return max((one.status.epoch for one in found), default=0)


@lru_cache(maxsize=64)  # who is looked for is asked for often
def address_of(url: str) -> str:
    """A base URL, the same text for the same place. Raises UsageError."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise UsageError(f"{url!r} is no URL: {error}") from None
    return str(parsed.copy_with(query=None, fragment=None)).rstrip("/")


def _by_address(candidates: Iterable[Candidate]) -> dict[str, Kind | None]:
    asked: dict[str, Kind | None] = {}
    for candidate in candidates:
        url = address_of(candidate.url)
        asked[url] = candidate.kind or asked.get(url)
    return asked


async def _tell_who_is_missing(
    waiting: Mapping[str, BaseException | None], patience_s: float, tell: Callable[[str], None]
) -> None:
    await trio.sleep(TELL_AFTER_S)
    told = ", ".join(url if kept is None else f"{url} ({kept})" for url, kept in waiting.items())
    if told:
        tell(f"waiting for {told}: {patience_s:g} s at most")


class _UntrustingError(Exception):
    """A server does not take our token."""


async def _ask(
    client: ControlClient, url: str, patience_s: float, waiting: dict[str, BaseException | None]
) -> Found | None:
    """What it is and how it stands; None where it takes no part.

    Raises ControlError, _UntrustingError, and TooSlowError, from what kept it from answering where that is
    known.
    """
    kept: ControlError | None = None
    with trio.move_on_after(patience_s):
        while True:
            try:
                return await _answer(client, url)
            except (UnansweredError, StrangeError) as error:
                if not is_passing(error):
                    raise
                kept = error
                waiting[url] = error.__cause__
                await trio.sleep(_AGAIN_S)
    raise trio.TooSlowError from kept


async def _answer(client: ControlClient, url: str) -> Found | None:
    line = Line(client, url, url)
    try:
        capabilities = await line.ask("capabilities", None, Capabilities)
        status = await line.ask("status", None, Status)
        if status.boot != capabilities.boot:
            await _refuse_several(line, capabilities.boot)
    except UnansweredError:
        raise
    except StrangeError as error:
        if error.status in _TAKES_NO_PART:
            return None
        if error.status in _TOKEN_IS_WRONG:
            raise _UntrustingError from None
        raise
    except ControlError as error:
        if error.code == Code.UNAUTHORIZED:
            raise _UntrustingError from None
        raise
    if capabilities.protocol != VERSION:
        raise ControlError(
            f"speaks version {capabilities.protocol} of the control protocol, not {VERSION}",
            participant=url,
        )
    if not 0 <= status.epoch < MOST_COUNTED:  # the run's own would have to be above it, for ever
        raise ControlError("says that it has heard of an epoch that there cannot be", participant=url)
    return Found(Participant(client, url, capabilities), status)


async def _refuse_several(line: Line, former: str) -> None:
    """Another process has answered. Raises ControlError where the former one lives: it was no restart."""
    for _ in range(_SEVERAL):
        if (await line.ask("status", None, Status)).boot == former:
            raise ControlError(
                "several processes answer there, each with a state of its own: serve it in one "
                "(uvicorn --workers 1)",
                participant=line.who,
            )


def _misfit(url: str, kind: Kind | None, answer: Found | None) -> str | None:
    """Why it is not what the user says that it is; None where he says nothing, or is right."""
    if kind is None:
        return None
    if answer is None:
        return f"{url} takes no part in checkpoints: it has no control plane"
    return None if answer.participant.kind == kind else f"{answer.participant} is no {kind} server"


def _silence(url: str, patience_s: float, kept: BaseException | None) -> str:
    why = None if kept is None else kept.__cause__
    reason = "" if why is None else f" ({why}); is it running?"
    return f"{url} did not say within {patience_s:g} s whether it takes part in checkpoints{reason}"


def _wrong_token(urls: Sequence[str]) -> list[str]:
    """One sentence for all of them: it is one token."""
    if not urls:
        return []
    do, servers = ("do", "the servers were") if urls[1:] else ("does", "the server was")
    told = (
        f"{', '.join(urls)}: {do} not take the control token; set TRIOCOLLECT_CONTROL_TOKEN or "
        f"--control-token-file to the token that {servers} started with"
    )
    return [told]


def _distinct(found: Iterable[Found]) -> tuple[tuple[Found, ...], list[str]]:
    """One for each kind and instance, and a sentence for each two servers that share them."""
    named: dict[tuple[Kind, str], Found] = {}
    clashes: list[str] = []
    for one in found:
        participant = one.participant
        first = named.setdefault((participant.kind, participant.instance), one).participant
        if first.boot != participant.boot:
            clashes.append(f"{first} and {participant} have the same name; checkpoints tell them apart by it")
    return tuple(named.values()), clashes
