"""The line between the coordinator and one worker: whole frames, in order, both ways."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

import anyio

GONE: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)  # the other end is


class Link(Protocol):
    """What both ends hold; a socket between two processes as a rule. Each of the two ways is one task's."""

    async def send(self, frame: bytes) -> None:
        """Raises anyio.BrokenResourceError or ClosedResourceError where nobody listens any more."""

    async def receive(self) -> bytes:
        """Raises anyio.EndOfStream, or one of the above, where nothing comes any more."""
        ...


@final
class Outbox:
    """What is to be sent, in order. Putting something in never waits; a frame is made when its turn comes."""

    def __init__(self) -> None:
        self._frames: Final[deque[Callable[[], bytes]]] = deque()
        self._put = 0
        self._sent = 0
        self._more = anyio.Event()
        self._progress = anyio.Event()

    def put(self, frame: Callable[[], bytes]) -> None:
        """Send it after all that was put in before."""
        self._frames.append(frame)
        self._put += 1
        self._more.set()

    async def sent(self) -> None:
        """Return when all that was put in by now is with the operating system."""
        wanted = self._put
        while self._sent < wanted:
            await self._progress.wait()

    async def run(self, link: Link) -> None:
        """Send until cancelled, or until nobody listens."""
        while True:
            while self._frames:
                await link.send(self._frames.popleft()())
                self._sent += 1
                self._progress.set()
                self._progress = anyio.Event()
            self._more = anyio.Event()
            await self._more.wait()
