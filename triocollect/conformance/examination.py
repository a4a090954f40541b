"""One participant from the first question to the goodbye: each promise is tried in an epoch of its own."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import httpx
from attrs import Factory, field, frozen

from triocollect.conformance.cutting import MOST_RETIRED
from triocollect.conformance.findings import Examined
from triocollect.conformance.meeting import meet
from triocollect.conformance.peer import Peer, Restart
from triocollect.conformance.promises import (
    Finding,
    Need,
    Promise,
    broken,
    concerns,
    groundless,
    kept,
    untried,
)
from triocollect.conformance.table import PROMISES, in_any_order
from triocollect.conformance.wandering import Wandering
from triocollect.conformance.work import PLAIN_ROW, Works
from triocollect.errors import BrokenPromiseError, RefusedError, TriocollectError, UntriedError, reason_of
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Forgotten, Greeted, Kind, Retired
from triocollect.protocol.refusals import Code
from triocollect.protocol.values import JsonObject

GOODBYE_S: Final = 10.0
_BEFORE_GREETING: Final = frozenset({1, 2, 5})  # they are about it, or come before it

Tell: TypeAlias = Callable[[Finding], None]


def nobody(_finding: Finding) -> None:
    """Nobody listens."""


@frozen(kw_only=True)
class Terms:
    """How a participant is put to the test.

    `token`: the one it was started with. `directory`: its checkpoint directory, as it is seen from here.
    `row` and `path`: what its work is made of, see `Works`. `patience_s`: for one piece of it. `seconds`,
    `seed`: of the calls in any order.
    """

    token: str = field(repr=False)
    kind: Kind | None = None
    directory: Path | None = None
    row: JsonObject = Factory(lambda: dict(PLAIN_ROW))
    path: str | None = None
    patience_s: float = 60.0
    seconds: float = 2.0
    seed: int = 0
    tell: Tell = nobody


async def examine(
    client: httpx.AsyncClient, url: str, terms: Terms, restart: Restart | None = None
) -> Examined:
    """Try all that it promises, and say goodbye. Every wait in it has a deadline of its own.

    Raises UsageError where no participant is there, RefusedError where it is at work for somebody else.
    """
    met = await meet(client, url, terms.token, terms.kind)
    kind, mode = met.capabilities.kind, met.capabilities.mode
    works = Works(kind, terms.row, terms.path)
    peer = Peer(
        client,
        url,
        terms.token,
        met,
        works,
        patience_s=terms.patience_s,
        directory=terms.directory,
        restart=restart,
    )
    await _may_begin(peer)
    wandering = Wandering(peer, terms.seed)
    last = in_any_order(partial(wandering.walk_for, terms.seconds))
    findings: list[Finding] = []
    left = ""
    try:
        for promise in (*PROMISES, last):
            if concerns(promise, kind, mode):
                findings.append(await _tried(peer, promise, findings))
                terms.tell(findings[-1])
    finally:
        left = f"it did not take the goodbye within {GOODBYE_S:g} s"
        with anyio.move_on_after(GOODBYE_S, shield=True):  # nobody else knows what it was left with
            left = await _goodbye(peer)
        left = "; ".join(filter(None, (left, _removed(peer))))
    return Examined(
        url=url,
        kind=kind,
        instance=met.capabilities.instance,
        mode=mode,
        findings=tuple(findings),
        seed=terms.seed,
        walks=wandering.walks,
        calls=wandering.calls,
        left=left,
        can_cut=met.capabilities.can_cut,
    )


async def _may_begin(peer: Peer) -> None:
    try:
        reply = await peer.begin()
    except BrokenPromiseError:
        return  # its promises will tell
    if reply.code == Code.OTHER_RUN:
        raise RefusedError(
            f"{peer.url} is at work for another collector; what is tried here needs it for itself: "
            "try again when that run has ended"
        )


async def _tried(peer: Peer, promise: Promise, findings: list[Finding]) -> Finding:
    if (why := groundless(promise, findings)) is not None:
        return untried(promise, why)
    try:
        await _greet(peer, promise)
        await _require(peer, promise)
        await promise.attempt(peer)
    except (TriocollectError, ExceptionGroup) as error:
        return _found(promise, reason_of(error))
    return kept(promise)


def _found(promise: Promise, error: BaseException) -> Finding:
    match error:
        case BrokenPromiseError():
            return broken(promise, error)
        case UntriedError():
            return untried(promise, str(error))
        case _:
            raise error


async def _greet(peer: Peer, promise: Promise) -> None:
    """Whatever was open before is over."""
    if promise.number in _BEFORE_GREETING:
        return
    try:
        (await peer.begin()).done(Greeted)
    except BrokenPromiseError as error:
        raise UntriedError(f"the greeting before it failed: {error}") from None


async def _require(peer: Peer, promise: Promise) -> None:
    """Raise UntriedError for something that is needed and not there."""
    fresh = Need.FRESH not in promise.needs or not (await peer.status()).served
    if not fresh and peer.restart is not None:
        await peer.restart()
        await _greet(peer, promise)
        fresh = not (await peer.status()).served
    there = {
        Need.DIRECTORY: peer.directory is not None,
        Need.FRESH: fresh,
        Need.RESTART: peer.restart is not None,
    }
    missing = [need for need in promise.needs if not there[need]]
    if missing:
        raise UntriedError(f"it needs {' and '.join(missing)}")


async def _goodbye(peer: Peer) -> str:
    """Nothing of this test is needed any more. Answers what it did not take."""
    over = sorted(EpisodeId(one.rollout_id, 1) for one in peer.episodes)
    try:
        (await peer.begin()).done(Greeted)
        for start in range(0, len(over), MOST_RETIRED):
            batch = over[start : start + MOST_RETIRED]
            (await peer.call("retire", episodes=batch)).done(Retired)
        names = [one.rollout_id for one in over]
        (await peer.call("forget", rollout_ids=names, goodbye=True)).done(Forgotten)
    except BrokenPromiseError as error:
        return f"it did not take the goodbye: {error}"
    return ""


def _removed(peer: Peer) -> str:
    """Remove what it wrote. Answers what is still there."""
    if peer.directory is None:
        written = f"its checkpoint directory has folders {peer.name}-* of this test, which nothing needs"
        return written if peer.folders else ""
    for folder in peer.folders:
        shutil.rmtree(peer.directory / folder, ignore_errors=True)
    kept = [folder for folder in peer.folders if (peer.directory / folder).exists()]
    return f"could not remove {peer.directory / kept[0]} and {len(kept) - 1} more like it" if kept else ""
