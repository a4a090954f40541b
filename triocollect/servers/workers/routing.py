"""The door of a worker: its own rollouts' requests to the application, others' to their worker."""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar, cast, final

import msgspec
import trio

from triocollect.errors import PeerError
from triocollect.participant.asgi import App, Message, Receive, Scope, Send
from triocollect.participant.workers import Member, owner_of
from triocollect.protocol.identity import Sender, sender_in
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import PREFIX
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of
from triocollect.servers.workers.passing import Passed, Passer, bytes_of, text_of
from triocollect.servers.workers.whose import Whose

R = TypeVar("R", bound=Record)


@final
class Router(Generic[R]):
    """Middleware around a worker's application.

    `others` are the ways to all the other workers by number, `coordinator` that of control calls; None:
    nobody takes part in checkpoints. A request that names no rollout is served where it arrives.
    """

    def __init__(
        self,
        app: App,
        member: Member[R],
        whose: Whose,
        others: Mapping[int, Passer],
        coordinator: Passer | None,
    ) -> None:
        self._app: Final = app
        self._member: Final = member
        self._whose: Final = whose
        self._others: Final = others
        self._coordinator: Final = coordinator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        if (body := await _body(receive)) is None:
            return  # the caller went away
        if self._coordinator is not None and (path == PREFIX or path.startswith(f"{PREFIX}/")):
            await self._pass_on(self._coordinator, scope, body, receive, send)
            return
        headers = {name.lower(): value for name, value in text_of(scope["headers"])}
        episode = self._whose(path, headers, body)
        if episode is not None:
            owner = owner_of(episode.rollout_id, len(self._others) + 1)
            if (other := self._others.get(owner)) is not None:
                await self._pass_on(other, scope, body, receive, send)
                return
            if self._member.lost(episode):
                await _refuse(f"an earlier worker took its part of {episode.capture_key} with it", send)
                return
            await self._member.noted(episode, _sender_in(headers))
        await self._app(scope, _again(body, receive), send)

    async def _pass_on(self, to: Passer, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        request = Passed(
            method=str(scope["method"]),
            path=str(scope["path"]),
            query=cast("bytes", scope.get("query_string", b"")).decode("latin-1"),
            headers=text_of(scope["headers"]),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hang_up, receive, nursery.cancel_scope)
            try:
                head, answer = await to.ask(request, body)
            except PeerError as error:
                await _refuse(str(error), send)
            else:
                await _send(send, head.status, bytes_of(head.headers), answer)
            nursery.cancel_scope.cancel()


def _sender_in(headers: Mapping[str, str]) -> Sender | None:
    try:
        return sender_in(headers)
    except ValueError:
        return None  # the application says what is wrong with it


async def _hang_up(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _body(receive: Receive) -> bytes | None:
    """All of it; None where the caller goes away before."""
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += cast("bytes", message.get("body", b""))
        if not message.get("more_body", False):
            return bytes(body)
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    """`receive` as if the body had not been read yet."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


async def _refuse(detail: str, send: Send) -> None:
    """Not a reply: nobody knows how far the work came, so the attempt is over."""
    why = Refusal(code=Code.COORDINATOR_UNAVAILABLE, detail=detail)
    json = [(b"content-type", b"application/json")]
    await _send(send, status_of(Code.COORDINATOR_UNAVAILABLE), json, msgspec.json.encode(RefusalBody(why)))


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    named = {name.lower() for name, _ in headers}
    if b"content-length" not in named:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
