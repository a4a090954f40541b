"""Whether a collector needs this process: from its greeting to its goodbye, or until its stop is cut."""

from typing import Final, final

import anyio


@final
class Attendance:
    """For a server that is told to end while a collector may be at work: it waits for `over`."""

    def __init__(self) -> None:
        self.needed = False
        self._cut = False
        self._waiting: Final[set[anyio.Event]] = set()

    def begin(self) -> None:
        """A collector has greeted, or cuts again."""
        self.needed, self._cut = True, False

    def cut(self) -> None:
        """The commit of a checkpoint that the run stops with is written."""
        self._cut = True

    def asked(self) -> None:
        """Somebody asked where things stand: after that commit, whether the cut held, and nothing more."""
        if self._cut:
            self.end()

    def end(self) -> None:
        """The collector has said goodbye."""
        self.needed = self._cut = False
        for event in self._waiting:
            event.set()

    async def over(self) -> None:
        """Return when no collector needs this process."""
        while self.needed:
            ended = anyio.Event()
            self._waiting.add(ended)
            try:
                await ended.wait()
            finally:
                self._waiting.remove(ended)
