"""Who is there: a participant that nobody else is using, or a sentence about why not."""

from typing import Final, TypeVar

import anyio
import httpx
import msgspec
from attrs import frozen

from triocollect.errors import RefusedError, UsageError
from triocollect.protocol.messages import PREFIX, VERSION, Answer, Capabilities, Kind, Status
from triocollect.protocol.refusals import RefusalBody
from triocollect.protocol.values import NOT_JSON

PATIENCE_S: Final = 15.0
_OK: Final = 200
_TAKES_NO_PART: Final = frozenset({404, 405, 501})
_TOKEN_IS_WRONG: Final = frozenset({401, 403})
_QUOTED: Final = 200

A = TypeVar("A", bound=Answer)


@frozen
class Met:
    """What a participant says of itself."""

    capabilities: Capabilities
    status: Status


async def meet(client: httpx.AsyncClient, url: str, token: str, kind: Kind | None) -> Met:
    """Ask who is there. `kind` is what the user takes it for.

    Raises UsageError where no such participant is, RefusedError where it is in the middle of something.
    """
    capabilities = _decoded(url, await _asked(client, url, token, "capabilities"), Capabilities)
    status = _decoded(url, await _asked(client, url, token, "status"), Status)
    if capabilities.protocol != VERSION:
        raise UsageError(
            f"{url} speaks version {capabilities.protocol} of the protocol, not {VERSION}: bring it and this "
            "program to versions that go together"
        )
    if kind not in {None, capabilities.kind}:
        raise UsageError(
            f"{url} is no {kind} server: it says that its kind is {capabilities.kind}; name it "
            f"--participant {capabilities.kind}={url}"
        )
    if status.phase != "open" or status.restored_pending:
        pending = f", with {status.restored_pending} restored episodes" if status.restored_pending else ""
        raise RefusedError(
            f"{url} is in the middle of something: {status.phase}{pending}. What is tried here needs a "
            "server without traffic: try again when its run has ended, or start it anew"
        )
    if status.needed is True:
        raise RefusedError(
            f"{url} works for a collector that has not said goodbye: what is tried here would end that run. "
            "Try again when it has ended; after a run that was killed, start the server anew"
        )
    return Met(capabilities, status)


async def _asked(client: httpx.AsyncClient, url: str, token: str, route: str) -> bytes:
    headers = {"authorization": f"Bearer {token}"}
    try:
        with anyio.fail_after(PATIENCE_S):
            response = await client.get(f"{url}{PREFIX}/{route}", headers=headers)
    except TimeoutError:
        raise UsageError(
            f"{url} did not answer GET {PREFIX}/{route} within {PATIENCE_S:g} s: look at its log, or "
            "at what else may listen at that port"
        ) from None
    except httpx.RequestError as error:
        why = str(error).removeprefix(f"{url}: ") or type(error).__name__
        raise UsageError(f"{url}: {why}; {_what_to_look_at(url, why)}") from None
    if response.status_code == _OK:
        return response.content
    raise UsageError(_no_participant(url, route, response))


def _what_to_look_at(url: str, why: str) -> str:
    if url.startswith("https:") and "TLS" in why:
        return "does it serve plain HTTP? Then write http://"
    return "is its name right?" if "resolved" in why else "is it running?"


def _no_participant(url: str, route: str, response: httpx.Response) -> str:
    if response.status_code in _TAKES_NO_PART:
        return (
            f"{url} takes no part in checkpoints: it has no control plane (GET {PREFIX}/{route} was answered "
            f"{response.status_code}); `python -m pydoc triocollect.participant` shows how it gets one"
        )
    if response.status_code in _TOKEN_IS_WRONG:
        return (
            f"{url} does not take the control token: set TRIOCOLLECT_CONTROL_TOKEN or --control-token-file "
            "to the one that it was started with"
        )
    if PREFIX in url:
        server, _, _ = url.partition(PREFIX)
        return f"{url} is where a control plane begins: give the server's own URL, {server}"
    try:
        said = msgspec.json.decode(response.content, type=RefusalBody).error.detail
    except NOT_JSON:
        said = response.content[:_QUOTED].decode(errors="replace")
    return f"{url} answered GET {PREFIX}/{route} with {response.status_code}: {said}"


def _decoded(url: str, data: bytes, kind: type[A]) -> A:
    try:
        return msgspec.json.decode(data, type=kind)
    except NOT_JSON as error:
        raise UsageError(
            f"{url} is no participant: its {kind.__name__.lower()} cannot be read ({error}); "
            "is it the URL of that server, and no other page?"
        ) from None
