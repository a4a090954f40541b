"""Rows in flight under a controller that takes orders: a nursery of services around one of rows."""

from typing import Final

import trio
from attrs import frozen

from triocollect.checkpoint.controller import command
from triocollect.checkpoint.crew import Crew
from triocollect.checkpoint.dispatch_log import DispatchLog
from triocollect.checkpoint.inbox import tick
from triocollect.checkpoint.orders import Ended, Published, RowsEnd
from triocollect.collector.air import Air
from triocollect.collector.feed import fly_all
from triocollect.collector.fleet import Fleet
from triocollect.collector.lock_directory import LockedDirectory
from triocollect.collector.set_out import Outset
from triocollect.errors import CheckpointError, StorageError
from triocollect.events import Note
from triocollect.report.run_report import Continued

_LAST_WORDS_S: Final = 10.0


@frozen(kw_only=True)
class UnderControl:
    """See `collector.control.Control`, which this is for a run with a checkpoint directory of `ours`."""

    ours: LockedDirectory
    crew: Crew
    watch: Air
    log: DispatchLog
    continued: Continued | None

    async def fly(self, fleet: Fleet, outset: Outset, *, longest_first: bool) -> Ended:
        """Until all rows have landed, or a stop has its checkpoint; servers and log hear of the end."""
        inbox, every_s = self.ours.inbox, self.ours.config.every_s
        ended: list[Ended] = []

        async def obey() -> None:
            ended.append(await command(self.crew, inbox))

        try:
            outset.record_directory()
            async with trio.open_nursery() as services:
                if every_s is not None:
                    services.start_soon(tick, inbox, every_s)
                async with trio.open_nursery() as controller:
                    controller.start_soon(obey)
                    if self.watch.ledger.lost:
                        inbox.retire()
                    with self.watch.flight:
                        await fly_all(fleet, outset, longest_first=longest_first)
                    inbox.rows_done()
                services.cancel_scope.cancel()
            await self._part(ended[0])
            await self.crew.blocking(outset.sinks.sync)  # a log with a clean end leaves out what has results
            await self._end_log()
        except BaseException:
            self.log.close()
            await self.crew.coordination.leave()
            raise
        return ended[0]

    async def _part(self, ended: Ended) -> None:
        """Let servers go: those of a stop's checkpoint have heard by its commit that nothing comes any more.

        After a second Ctrl-C nobody is waited for.
        """
        if ended.ending is RowsEnd.DONE:
            await self._say_goodbye()
        elif ended.ending is RowsEnd.PREEMPTED and not isinstance(ended.taken, Published):
            await self.crew.coordination.leave()

    async def _say_goodbye(self) -> None:
        """Refusals and left-overs of finished rollouts go; who is not reached keeps them until it ends."""
        fault = f"there was no answer within {_LAST_WORDS_S:g} s"
        with trio.move_on_after(_LAST_WORDS_S):
            try:
                await self.crew.coordination.goodbye(self.watch.finished())
            except CheckpointError as error:
                fault = str(error)
            else:
                return
        self.crew.listener(Note(f"not every server has heard of the run's end: {fault}", "warning"))

    async def _end_log(self) -> None:
        """The rows are written, so a full disk takes nothing away here: the log then has no clean end."""
        try:
            await self.crew.blocking(self.log.end)
        except StorageError as error:
            self.crew.listener(Note(f"{error}; nothing is lost, every row is written", "warning"))
