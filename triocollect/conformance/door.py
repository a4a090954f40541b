"""Promises about who is let in, and what is understood at all."""

import os
from pathlib import Path
from typing import Final

import msgspec

from triocollect.conformance.peer import BUDGET_MS, LEASE_MS, Peer
from triocollect.errors import BrokenPromiseError, UntriedError
from triocollect.protocol.messages import VERSION, Capabilities, Greeted, Status
from triocollect.protocol.refusals import Code

_TOLD: Final = ("status", "capabilities", "place")
VERBS: Final = ("hello", "prepare", "commit", "restore", "resume", "retire", "forget")
SEVERAL: Final = 12  # connections: of several processes behind a port, another one takes some of them
_UNKNOWN: Final = 404
_OUTSIDE: Final = ("../{}", "/{}", "inside/../../{}")


def nothing_of(peer: Peer, verb: str) -> dict[str, object]:
    """What a call of this verb needs beyond the common fields, about nothing at all."""
    match verb:
        case "commit":
            return peer.cut()
        case "restore":
            return {"checkpoint_id": "none", "directory": "none", "manifest_sha256": "0" * 64, "scope": []}
        case "retire":
            return {"episodes": [{"rollout_id": "none", "attempt": 0}]}
        case "forget":
            return {"rollout_ids": ["none"]}
        case _:
            return {}


async def token_is_asked_for(peer: Peer) -> None:
    """No route without it, none with another one, and nothing is told."""
    # Operation 0 has always ended, so whoever is let in without the token does no harm.
    body = msgspec.json.encode(
        {"run": peer.name, "epoch": peer.epoch, "operation": 0, "budget_ms": BUDGET_MS, "lease_ms": LEASE_MS}
    )
    routes = [
        *(("GET", route, None) for route in _TOLD),
        *(("POST", verb, body) for verb in VERBS),
    ]
    for method, route, content in routes:
        for token, how in ((None, "no token"), (f"{peer.token}x", "a wrong token"), ("", "an empty token")):
            shown = " " if token == "" else token
            reply = await peer.raw(method, route, content, asked=f"{method} {route} with {how}", token=shown)
            if route == "place" and reply.status == _UNKNOWN:
                continue  # a server need not have it
            refusal = reply.refused(Code.UNAUTHORIZED)
            reply.must(refusal.phase is None, "no word of the server's phase to who has no token")


async def it_says_what_it_is(peer: Peer) -> None:
    """Kind, instance and version, and one boot everywhere."""
    reply = await peer.raw("GET", "capabilities")
    told = reply.done(Capabilities)
    reply.must(told.protocol == VERSION, f"protocol {VERSION}")
    reply.must(told.kind == peer.works.kind, f"kind {peer.works.kind}")
    reply.must(told.instance and "/" not in told.instance, "an instance that can name a folder")
    reply.must(told.boot, "a boot, random for each start of the process")
    for _ in range(SEVERAL):
        await peer.status()
    (await peer.begin()).done(Greeted)


async def nonsense_is_refused(peer: Peer) -> None:
    """What no reader understands is 422 and changes nothing; a field that nobody knows is no nonsense."""
    before = await peer.status()
    whole: dict[str, object] = {"run": peer.name, "epoch": peer.epoch, "operation": 1, "budget_ms": BUDGET_MS}
    nonsense = {
        "no JSON": b"{",
        "a list": b"[]",
        "no run": msgspec.json.encode({key: value for key, value in whole.items() if key != "run"}),
        "an epoch that is text": msgspec.json.encode(whole | {"epoch": "one"}),
    }
    for what, body in nonsense.items():
        reply = await peer.raw("POST", "prepare", body, asked=f"POST prepare, the body {what}")
        reply.refused(Code.BAD_REQUEST)
    reply = await peer.raw("GET", "status")
    reply.must(reply.done(Status) == before, f"the status as it was: {before}")
    (await peer.call("hello", 0, a_field_that_nobody_knows=[1, 2])).done(Greeted)


def _outside(peer: Peer, place: str) -> Path | None:
    """What a server that took it would have made of it; None where nothing is there, or nothing is seen."""
    path = None if peer.directory is None else Path(os.path.normpath(peer.directory / place))
    return path if path is not None and os.path.lexists(path) else None


async def directories_stay_inside(peer: Peer) -> None:
    """A checkpoint outside the checkpoint directory is refused, and nothing is written."""
    try:
        await peer.prepared()
    except BrokenPromiseError as error:
        raise UntriedError(f"the prepare before it failed: {error}") from None
    for place in (outside.format(peer.name) for outside in _OUTSIDE):
        reply = await peer.call("commit", **{**peer.cut(), "directory": place})
        reply.must(reply.code is not None, f"a refusal of the directory {place!r}: {Code.BAD_REQUEST}")
        reply.must((there := _outside(peer, place)) is None, f"nothing written: {there} is there now")
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).phase == "prepared", "phase prepared: nothing was committed")
