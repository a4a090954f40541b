"""An application in this process, served to a client without a socket, and started anew when asked."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Final, TypeAlias, final

import anyio
from anyio.abc import TaskGroup

from triocollect.errors import UntriedError, UsageError

Scope: TypeAlias = MutableMapping[str, object]
Receive: TypeAlias = Callable[[], Awaitable[Scope]]
Send: TypeAlias = Callable[[Scope], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@final
class Lifespan:
    """The life of one application: begun by `start`, ended by `stop`."""

    def __init__(self, app: App) -> None:
        self.app: Final = app
        self._started: Final = anyio.Event()
        self._told_to_end: Final = anyio.Event()
        self._ended: Final = anyio.Event()
        self._begun = False
        self._failed: str | None = None

    async def start(self, tasks: TaskGroup) -> None:
        """Return when it serves. Raises UsageError where its startup fails."""
        tasks.start_soon(self._live)
        await self._started.wait()
        if self._failed is not None:
            raise UsageError(f"the application does not start: {self._failed}")

    async def stop(self) -> None:
        """Return when it has ended."""
        self._told_to_end.set()
        await self._ended.wait()

    async def _live(self) -> None:
        try:
            await self.app(
                {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, self._receive, self._send
            )
        except Exception as error:  # noqa: BLE001  # somebody else's code; without a lifespan it may raise as well
            if self._begun and not self._started.is_set():
                self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._started.set()
            self._ended.set()

    async def _receive(self) -> Scope:
        if not self._begun:
            self._begun = True
            return {"type": "lifespan.startup"}
        await self._told_to_end.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Scope) -> None:
        if message["type"] == "lifespan.startup.failed":
            self._failed = str(message.get("message", "")) or "it does not say why"
        if str(message["type"]).startswith("lifespan.startup."):
            self._started.set()


@final
class InProcess:
    """What the client speaks to: the present application. `make` makes the one of a new process."""

    def __init__(self, tasks: TaskGroup, make: Callable[[], App]) -> None:
        self._tasks: Final = tasks
        self._make: Final = make
        self._life: Lifespan | None = None

    async def restart(self) -> None:
        """End the present one, if any, and start another."""
        app = self._make()
        if self._life is not None and self._life.app is app:
            raise UntriedError("it needs a new application for each call of `make`, and got the same again")
        await self.stop()
        self._life = Lifespan(app)
        await self._life.start(self._tasks)

    async def stop(self) -> None:
        """End the present one."""
        if self._life is not None:
            await self._life.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        assert self._life is not None
        await self._life.app(scope, receive, send)
