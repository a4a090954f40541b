"""One HTTP exchange with an ASGI app, watched as it happens: pieces with times, a caller who can leave.

httpx's own ASGI transport gives a reply only when it is whole, and never hangs up.
"""

import json
from collections.abc import Mapping

import trio
from starlette.types import ASGIApp, Message


class Exchange:
    """A POST of `body`. `pieces` are (seconds since the clock began, bytes) of the reply's body so far."""

    def __init__(
        self, app: ASGIApp, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> None:
        self._app, self._path, self._body = app, path, json.dumps(body).encode()
        self._headers = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self._left = trio.Event()
        self._sent = False
        self.status: int | None = None
        self.pieces: list[tuple[float, bytes]] = []

    async def run(self) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": self._headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await self._app(scope, self._receive, self._send)

    def leave(self) -> None:
        """Hang up."""
        self._left.set()

    async def _receive(self) -> Message:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["body"]:
            self.pieces.append((trio.current_time(), message["body"]))

    def events(self) -> list[tuple[float, dict]]:
        """The server-sent events so far, each with the time it came."""
        return [
            (at, json.loads(block.partition("data: ")[2]))
            for at, piece in self.pieces
            for block in piece.decode().split("\n\n")
            if block
        ]
