"""What earlier runs of a checkpoint directory left: a checkpoint, a log of what was sent, attempts in use.

Reading all of it takes as long as it takes, so it belongs in a thread.
"""

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.ladder import Rung, episodes_named
from triocollect.checkpoint.sent import Sent, read_dispatched
from triocollect.collector.history import History, history_of
from triocollect.collector.resume import Survey
from triocollect.rows.types import Row


@frozen
class Inherited:
    """The `rung` to go on from, what was `sent`, and the `history` of the rows that are left."""

    rung: Rung
    sent: Sent
    history: History

    def warnings(self) -> tuple[str, ...]:
        """What was passed over and what is damaged, a sentence each."""
        return (*self.rung.words(), *self.sent.faults)

    @property
    def epoch(self) -> int:
        """The highest that any of it names."""
        whole, before = self.rung.checkpoint, self.sent.header
        return max(0 if before is None else before.epoch, 0 if whole is None else whole.collection.epoch)


def inherited(root: Path, rung: Rung, output: str | None, rows: Iterable[Row], survey: Survey) -> Inherited:
    """Put together what the directory and the output's files know, for the run of that `output`, if known.

    Raises what reading `rows` raises.
    """
    sent, senders = read_dispatched(root / DISPATCHED), dict[str, str]()
    if output is not None:
        sent, senders = sent.beside(output), sent.of_others(output)
    if not rung.is_bottom:
        sent = sent.above(0)  # who has left checkpoints has sent rows, also where the log is lost
    return Inherited(rung, sent, history_of(rows, survey, sent, episodes_named(root), senders))
