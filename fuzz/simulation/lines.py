"""The line between a coordinator and a worker: frames in order, each as long on its way as dice say."""

from collections import deque
from collections.abc import Callable

import anyio
import trio


class _Way:
    """What was sent is read to its end, whoever has died meanwhile, as it is with the kernel."""

    def __init__(self, lasts: Callable[[], float]):
        self._lasts, self._last = lasts, 0.0
        self._frames = deque[tuple[float, bytes]]()
        self._closed, self._news = False, trio.Event()

    async def send(self, frame: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise anyio.BrokenResourceError
        self._last = max(self._last, trio.current_time() + self._lasts())
        self._frames.append((self._last, frame))
        self._news.set()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._frames:
            if self._closed:
                raise anyio.EndOfStream
            self._news = trio.Event()
            await self._news.wait()
        due, frame = self._frames[0]
        if due > trio.current_time():
            await trio.sleep_until(due)
        self._frames.popleft()
        return frame

    def close(self) -> None:
        self._closed = True
        self._news.set()


class End:
    """One end."""

    def __init__(self, outwards: _Way, inwards: _Way):
        self._ways = outwards, inwards
        self.send, self.receive = outwards.send, inwards.receive

    def close(self) -> None:
        """Whoever holds it is dead."""
        for way in self._ways:
            way.close()


def a_line(lasts: Callable[[], float]) -> tuple[End, End]:
    """Both ends of one. `lasts`: the way of the next frame, in seconds."""
    there, back = _Way(lasts), _Way(lasts)
    return End(there, back), End(back, there)
