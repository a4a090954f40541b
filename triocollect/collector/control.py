"""How rows fly: under a controller, which can take checkpoints of them and stop them, or by themselves."""

from typing import Final, Protocol

from triocollect.checkpoint.orders import Ended, RowsEnd
from triocollect.collector.feed import fly_all
from triocollect.collector.fleet import Fleet
from triocollect.collector.set_out import Outset
from triocollect.collector.watch import Unwatched, Watch
from triocollect.flight.ledger import Ledger
from triocollect.report.run_report import Continued


class Control(Protocol):
    """What a run has beside its rows."""

    @property
    def watch(self) -> Watch:
        """Looks on while they fly."""

    @property
    def continued(self) -> Continued | None:
        """What an earlier run's rows go on with."""

    async def fly(self, fleet: Fleet, outset: Outset, *, longest_first: bool) -> Ended:
        """Send all rows that are left; how it ended."""


class NoControl:
    """A run without a checkpoint directory, or without a row to send: nobody stops it."""

    continued: Final = None

    def __init__(self, ledger: Ledger) -> None:
        self.watch: Final = Unwatched(ledger)

    async def fly(self, fleet: Fleet, outset: Outset, *, longest_first: bool) -> Ended:
        """To their end."""
        outset.record_directory()
        await fly_all(fleet, outset, longest_first=longest_first)
        return Ended(RowsEnd.DONE)
