"""A worker that has no room now is asked again: a rollout of hours is worth more than some minutes.

It was not begun: the answer is 429, or 503 with a word about when to come back (RFC 9110, 10.2.3).
"""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from triocollect.errors import BusyError
from triocollect.protocol.handed_down import NOTE
from triocollect.servers.model.calls import Answer

_log: Final = logging.getLogger("triocollect.servers")

PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # at least, also where it says when to come back
LONGEST_S: Final = 300.0  # that it can ask for


@final
class Patience:
    """That of all calls of a model server. It is told once that some wait, until none does."""

    def __init__(self) -> None:
        self._waiting = 0

    async def answered(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What is answered at last. Raises PeerError; a BusyError when there was no room for minutes."""
        try:
            return await ask()
        except BusyError as busy:
            if not self._waiting:
                _log.warning(NOTE + "calls wait, and are made again after a while: %s", busy)
            self._waiting += 1
            try:
                return await self._again(ask, busy)
            finally:
                self._waiting -= 1

    async def _again(self, ask: Callable[[], Awaitable[Answer]], busy: BusyError) -> Answer:
        """Who is told to come back soon, and is refused again, waits longer all the same."""
        for pause_s in PAUSES_S:
            wanted_s = max(pause_s, min(busy.after_s or 0.0, LONGEST_S))
            # A little later, or all who were refused at once come back at once.
            await trio.sleep(wanted_s * (1 + random.random() / 4))  # noqa: S311  # guards nothing
            try:
                return await ask()
            except BusyError as again:
                busy = again
        raise busy
