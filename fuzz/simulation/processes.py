"""A server process of a simulated machine: when it dies everything it had is gone."""

import contextvars
from collections.abc import Awaitable, Callable

import trio

from fuzz.simulation.calls import Calls
from fuzz.simulation.files import OWNER
from fuzz.simulation.network import Network


async def inline(work):
    """What blocks is done at once: simulated time has no threads."""
    await trio.lowlevel.checkpoint()
    return work()


class Process:
    """With memory, connections, work under way. `build` makes what it serves of how it reaches others."""

    def __init__(self, name: str, build: Callable, network: Network):
        self.name, self.host, self.network = name, name.replace("_", "-"), network
        self.dead = self.stands = False
        self._up, self._ended = trio.Event(), trio.Event()
        self._tasks: trio.Nursery | None = None
        self.app = build(lambda _base_url: Calls(network, lambda: self.dead))

    async def run(self, task_status=trio.TASK_STATUS_IGNORED):
        """Until it dies, or whoever owns it ends."""
        OWNER.set(self)
        self._context = contextvars.copy_context()
        try:
            async with trio.open_nursery() as whole:
                try:
                    async with trio.open_nursery() as self._tasks:
                        await self._come_up(whole)
                        self._opens()
                        task_status.started()
                        await trio.sleep_forever()
                finally:
                    self._ended.set()
        finally:
            self.dead, self.stands = True, False
            await self._let_go()

    async def _come_up(self, whole: trio.Nursery) -> None:
        whole.start_soon(self._lifespan)
        await self._up.wait()

    def _opens(self) -> None:
        """Its port."""
        self.stands = True
        self.network.hosts[self.host] = self

    async def _let_go(self) -> None:
        """At once, also where everything is cancelled."""
        if self.network.hosts.get(self.host) is self:
            del self.network.hosts[self.host]

    async def accepts(self) -> "Process | None":
        """Who takes a connection that is made to its port."""
        return self

    def start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        """Work that ends with it, whoever began it. Raises RuntimeError."""
        self._context.run(self._tasks.start_soon, work, *args)

    def die(self) -> None:
        """At once."""
        self.dead, self.stands = True, False
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()

    async def _lifespan(self) -> None:
        """Shielded, as it knows of no cancelling: who is dead says nothing any more, and changes nothing."""
        messages = iter([{"type": "lifespan.startup"}])

        async def receive():
            if (message := next(messages, None)) is None:
                await self._ended.wait()
                return {"type": "lifespan.shutdown"}
            return message

        async def send(message):
            if message["type"] == "lifespan.startup.complete":
                self._up.set()

        with trio.CancelScope(shield=True):
            await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
