"""Who looks on while rows fly: a run's own checkpoints, or nobody. So neither is a second code path."""

from collections.abc import Sequence
from typing import Final, Protocol

import trio

from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row


class Watch(Protocol):
    """What a row's task tells of its row, and what it has to ask first."""

    @property
    def ledger(self) -> Ledger:
        """Where each unfinished row stands."""

    def headers(self, key: RowKey, /) -> Sequence[tuple[bytes, bytes]]:
        """What a `/run` says beside its row."""

    def is_lost(self, key: RowKey, /) -> bool:
        """Whether an attempt of the row may run still that nobody has stopped."""

    async def stopped(self, key: RowKey, /) -> bool:
        """Wait until what ran of the row before is stopped everywhere; False when that takes too long."""

    def sent(self, row: Row, episode: EpisodeId, /) -> None:
        """In flight begins, before a byte of it is sent. Raises StorageError; then it must not be sent."""

    def replied(self, episode: EpisodeId, /) -> None:
        """The episode has ended by an answer."""

    def nothing_ran(self, episode: EpisodeId, /) -> None:
        """It was sent, and ran nowhere: the same attempt may be sent again, by whatever run."""

    def unpersisted(self, episode: EpisodeId, /) -> None:
        """The episode has ended by an answer that is written nowhere. Raises StorageError."""

    def landed(self, key: RowKey, /) -> None:
        """The row is not in flight any more."""


class Unwatched:
    """No checkpoint is taken and nobody retires anything: what brought no reply may be sent again at once."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger: Final = ledger

    def headers(self, _key: RowKey, /) -> Sequence[tuple[bytes, bytes]]:
        """None."""
        return ()

    def is_lost(self, _key: RowKey, /) -> bool:
        """Nothing is waited for."""
        return False

    async def stopped(self, _key: RowKey, /) -> bool:
        """At once."""
        await trio.lowlevel.checkpoint()
        return True

    def sent(self, row: Row, episode: EpisodeId, /) -> None:
        """Nobody hears of it."""

    def replied(self, episode: EpisodeId, /) -> None:
        """Nobody hears of it."""

    def nothing_ran(self, episode: EpisodeId, /) -> None:
        """Nobody hears of it."""

    def unpersisted(self, episode: EpisodeId, /) -> None:
        """Nobody hears of it."""

    def landed(self, key: RowKey, /) -> None:
        """Nobody hears of it."""
