"""Idle connections of one origin."""

from collections import deque
from typing import Final, final

import trio

from triocollect.transport.connection import Connection

IDLE_S: Final = 15.0  # well below the 30 s and more after which servers give up on an idle connection


@final
class IdleConnections:
    """The connection used last is taken first, so the others grow old; nobody ever waits here.

    There is no limit and no queue: callers have a gate of their own. A request costs the same however many
    connections there are.
    """

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: deque[Connection] = deque()

    def __len__(self) -> int:
        return len(self._connections)

    async def take(self) -> Connection | None:
        """A connection that is open as far as anybody can tell, or None."""
        while self._connections:
            connection = self._connections.pop()
            if connection.idle_since + IDLE_S > trio.current_time() and connection.is_quiet():
                return connection
            await connection.close()
        return None

    async def put(self, connection: Connection) -> None:
        """Keep a connection for later, and close those that nobody has wanted for long."""
        now = connection.idle_since = trio.current_time()
        self._connections.append(connection)
        while self._connections and self._connections[0].idle_since + IDLE_S <= now:
            await self._connections.popleft().close()

    async def close(self) -> None:
        """Close them all, at once."""
        while self._connections:
            await self._connections.pop().close()
