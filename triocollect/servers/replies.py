"""What every server answers alike: JSON, errors with a code, health, and nothing to a client that is gone."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from triocollect.errors import TriocollectError
from triocollect.participant import Admission
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of
from triocollect.telemetry import count

_log: Final = logging.getLogger("triocollect.servers")


class Gone(Response):
    """The answer to a client that has hung up: not a byte."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # ASGI's own signature
        return


async def gone(_request: Request, _error: Exception) -> Response:
    """What comes of a client that has hung up in the middle of its request."""
    return Gone()


def json_reply(body: object, status: int = 200) -> Response:
    """Any value that msgspec encodes, as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def refusal(code: Code, detail: str) -> Response:
    """The request was understood and is not carried out."""
    return refused(Refusal(code=code, detail=detail))


def refused(why: Refusal) -> Response:
    """A refusal that somebody else decided on."""
    count("refusals", code=why.code)
    return json_reply(RefusalBody(why), status_of(Code(why.code)))


def retired(episode: EpisodeId | None, admission: Admission) -> Response:
    """The answer to work that was stopped: its episode is retired."""
    why = None if episode is None else admission.marks.refusal(episode)
    return Gone() if why is None else refused(why)


def under_way(episode: EpisodeId) -> Response:
    """The refusal of what an episode already has going on here."""
    return refusal(Code.DUPLICATE_ATTEMPT, f"{episode.capture_key} is under way already")


def broken(detail: str) -> Response:
    """500 with a JSON string, which is how Gym 0.7.0's servers say that the work itself broke."""
    return json_reply(detail, 500)


async def attended(
    request: Request, admission: Admission, work: Callable[[], Awaitable[Response]]
) -> Response:
    """What `work` answers, for as long as the client listens.

    A client that hangs up cancels the work; the HTTP server below cancels nothing by itself. While the
    admission is closed nothing of a checkpoint may change, so it is only noted, and acted on at the opening.
    The body of the request must have been read before. Whatever the work raises becomes a 500 that names it.
    """
    reply: Response = Gone()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_hang_up, request, admission, nursery.cancel_scope)
        reply = await _answered(work)
        nursery.cancel_scope.cancel()
    return reply


async def _hang_up(request: Request, admission: Admission, scope: trio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    await admission.until_open()
    scope.cancel()


async def _answered(work: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await work()
    except TriocollectError as error:
        return broken(str(error))
    except Exception as error:  # noqa: BLE001  # one request's fault must not end the others'
        _log.error("%s: %s", type(error).__name__, error)  # a terminal gets no traceback
        return broken(f"{type(error).__name__}: {error}")


async def _healthy(_request: Request) -> Response:
    return json_reply({"status": "ok"})


HEALTH: Final = tuple(Route(path, _healthy) for path in ("/", "/livez", "/readyz", "/healthz", "/health"))
