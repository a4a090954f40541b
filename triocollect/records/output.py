"""What earlier runs left in the output: by identity, never by count or position.

A line that is no record is damage: reported with line and byte offset, left alone, and its row counts as
unfinished. The first success line of a row counts, later ones are reported.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from triocollect.protocol.ids import RowKey
from triocollect.records.findings import Findings, KeySet
from triocollect.records.heads import decode_output_head, head_of
from triocollect.records.lines import Lines


class OutputScan:
    """`done` rows, what does not count, and the highest attempts; a row done at its first is not in these."""

    def __init__(self, path: Path) -> None:
        self.done: Final = KeySet()
        self.attempts: Final[dict[RowKey, int]] = {}
        self.damaged: Final = Findings(path)
        self.duplicates: Final = Findings(path)
        self.failures: Final = Findings(path)


def scan_output(path: Path, on_reward: Callable[[int, float], None] | None = None) -> OutputScan:
    """Read the whole lines of an output; `on_reward` hears (task index, reward) of every result with one.

    Raises StorageError where it cannot be read.
    """
    scan = OutputScan(path)
    for line in Lines(path):
        head = head_of(line, decode_output_head, scan.damaged)
        if head is None:
            continue
        if head.attempt or head.is_failure:  # a failed first attempt is used up: the next is the second
            scan.attempts[head.key] = max(head.attempt, scan.attempts.get(head.key, 0))
        if head.is_failure:
            scan.failures.add(line, f"row {head.key} holds a failure, not a result: it counts as unfinished")
        elif not scan.done.add(head.key):
            scan.duplicates.add(line, f"row {head.key} has a result already: the first one counts")
        elif on_reward is not None and (reward := head.reward_value) is not None:
            on_reward(head.task, reward)
    return scan
