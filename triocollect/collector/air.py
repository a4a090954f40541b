"""The rows of a run as a checkpoint sees them: what flies, since when, and who may be sent again."""

from collections.abc import Collection, Mapping
from typing import Final

import trio
from attrs import frozen

from triocollect.checkpoint.airspace import Blocking
from triocollect.checkpoint.coordination import Coordination
from triocollect.checkpoint.dispatch_log import DispatchLog
from triocollect.checkpoint.inbox import Inbox
from triocollect.collector.sinks import Sinks
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing, Target
from triocollect.protocol.identity import CONTINUED, Sender, sender_headers
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row

RETIRE_PATIENCE_S: Final = 300.0  # a participant that is gone for longer will not retire anything
_LOOK_S: Final = 5.0


@frozen(kw_only=True)
class AirParts:
    """What an Air works with."""

    gate: Gate
    ledger: Ledger
    sinks: Sinks
    log: DispatchLog
    inbox: Inbox
    blocking: Blocking


class Air:
    """An Airspace for the controller (`checkpoint.airspace`) and a Watch for the rows (`collector.watch`)."""

    def __init__(self, parts: AirParts) -> None:
        self.gate: Final = parts.gate
        self.ledger: Final = parts.ledger
        self.flight: Final = trio.CancelScope()  # around all rows: left by a stop
        self._parts: Final = parts
        self._sent_at: Final[dict[RowKey, float]] = {}
        self._targets: Final[dict[RowKey, Target]] = {}
        self._uncontrolled: Final[dict[Target, str | None]] = {}  # why no rollout there can be continued
        self._finished: Final[set[str]] = set()
        self._changed = trio.Event()
        self._coordination: Coordination | None = None
        self._routing: Routing | None = None

    def meet(self, coordination: Coordination, routing: Routing) -> None:
        """From here on it is known who takes part."""
        self._coordination, self._routing = coordination, routing

    def finished(self) -> list[str]:
        """Rollouts that have ended and that participants keep a refusal, or something, of."""
        lost = {episode.rollout_id for episode in self.ledger.lost.values()}
        return sorted(self._finished - lost)

    # -- what a row tells ---------------------------------------------------------------------------------

    def is_lost(self, key: RowKey) -> bool:
        """Whether something of the row may run still that nobody has stopped."""
        return key in self.ledger.lost

    async def stopped(self, key: RowKey) -> bool:
        """Wait until it is stopped everywhere; False when that takes too long.

        Nothing is retired while a checkpoint is open, so that time does not count.
        """
        waited_s = 0.0
        while self.is_lost(key) and waited_s < RETIRE_PATIENCE_S:
            before = trio.current_time()
            with trio.move_on_after(_LOOK_S):
                await self._changed.wait()
            if self.gate.is_open:
                waited_s += trio.current_time() - before
        return not self.is_lost(key)

    def sent(self, row: Row, episode: EpisodeId) -> None:
        """Write the attempt down, before a byte of it is sent. Raises StorageError."""
        self._parts.log.append((episode,))
        self._parts.sinks.something_new()
        self._sent_at[row.key] = trio.current_time()
        assert self._routing is not None
        self._targets[row.key] = self._routing.target(row)

    def replied(self, episode: EpisodeId) -> None:
        """The episode has ended by an answer: nothing of its rollout is needed any more."""
        if episode.attempt:
            self._finished.add(episode.rollout_id)

    def nothing_ran(self, episode: EpisodeId) -> None:
        """It is as if it had not been sent."""
        self._parts.log.nothing_ran(episode)

    def unpersisted(self, episode: EpisodeId) -> None:
        """It has ended by an answer of which the dispatch log alone is to tell. Raises StorageError."""
        self._parts.log.answered(episode)
        self._parts.sinks.something_new()
        self.replied(episode)

    def landed(self, key: RowKey) -> None:
        """The row is not in flight any more; what brought no reply is to be retired."""
        self._sent_at.pop(key, None)
        self._targets.pop(key, None)
        if key in self.ledger.lost:
            self._parts.inbox.retire()
        self._tell()

    def headers(self, key: RowKey) -> list[tuple[bytes, bytes]]:
        """What a `/run` says beside its row: whose it is, and whether it goes on from a boundary."""
        sender = Sender(self._parts.log.header.run, self._parts.log.header.epoch)
        headers = [(name.encode(), value.encode()) for name, value in sender_headers(sender).items()]
        if key in self.ledger.continuing:
            headers.append((CONTINUED.encode(), b"1"))
        return headers

    # -- what the controller asks ----------------------------------------------------------------------------

    async def sync(self) -> None:
        """Make output, sidecar and dispatch log durable. Raises StorageError."""
        await self._parts.blocking(self._parts.sinks.sync)  # the dispatch log with them

    async def ended(self, episodes: Collection[EpisodeId]) -> None:
        """Return when none of these is in flight any more."""
        while not frozenset(self.ledger.flying.values()).isdisjoint(episodes):
            await self._changed.wait()

    def uncontrolled(self) -> Mapping[EpisodeId, str]:
        """Rows in flight of which some server has a part that takes no part in checkpoints."""
        whys = {
            episode: self._why_uncontrolled(self._targets[key])
            for key, episode in self.ledger.flying.items()
            if key in self._targets
        }
        return {episode: why for episode, why in whys.items() if why is not None}

    def _why_uncontrolled(self, target: Target) -> str | None:
        assert self._coordination is not None
        assert self._routing is not None
        if target not in self._uncontrolled:
            holders = {"its environment server": target.url, **self._routing.below(target)}
            outside = [
                f"{who} at {url}" for who, url in holders.items() if self._coordination.at(url) is None
            ]
            why = f"no part in checkpoints is taken by {', '.join(outside)}"
            self._uncontrolled[target] = why if outside else None
        return self._uncontrolled[target]

    def work_s(self, episodes: Collection[EpisodeId]) -> float:
        """Seconds since these were sent, added up."""
        now, wanted = trio.current_time(), frozenset(episodes)
        flying = self.ledger.flying.items()
        return sum(now - self._sent_at.get(key, now) for key, episode in flying if episode in wanted)

    def retired(self) -> None:
        """Rows that brought no reply are retired: they may be sent again."""
        self._tell()

    def cancel_rows(self) -> None:
        """Give the rows in flight up, without retiring them."""
        self.flight.cancel()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
