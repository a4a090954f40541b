"""The capture ledger: which policy calls an episode has had, without a token of what was said. Pure.

A row is written once, when its response is released to the caller, and names the call that the caller knew
last. A caller that goes on from a checkpoint may know less than the ledger: a response that was sent and
never read before the cut. Its first call says how far it knows, and what lies beyond is dropped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import final

import msgspec

from triocollect.protocol.ids import EpisodeId


class LedgerRow(msgspec.Struct, frozen=True):
    """One delivered call. Lengths are in tokens, None where the worker does not say.

    `continued_at`: how many of its tokens were generated before a checkpoint, `continued_by`: by which means
    the rest was generated after them; neither for a call that was generated in one piece.
    """

    call_id: str
    parent: str | None
    request_sha256: str
    response_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    continued_at: int | msgspec.UnsetType = msgspec.UNSET
    continued_by: str | msgspec.UnsetType = msgspec.UNSET


class LedgerRows(msgspec.Struct, frozen=True):
    """The `state` of a record: all calls of an episode, in the order of their delivery."""

    rows: tuple[LedgerRow, ...]


@final
class CallLedger:
    """The rows of each episode. `undelivered`: how many that were kept turned out not to be known."""

    def __init__(self) -> None:
        self._rows: dict[EpisodeId, dict[str, LedgerRow]] = {}
        self.undelivered = 0

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, episode: EpisodeId) -> Sequence[LedgerRow]:
        """The calls of an episode."""
        return tuple(self._rows.get(episode, {}).values())

    def commit(self, episode: EpisodeId, row: LedgerRow) -> None:
        """The response of this call is being delivered."""
        assert row.call_id not in self._rows.get(episode, {}), "a row is written once"
        self._rows.setdefault(episode, {})[row.call_id] = row

    def take_over(self, episode: EpisodeId, rows: Iterable[LedgerRow]) -> None:
        """The rows of an earlier attempt, in place of whatever was kept of this one."""
        self._rows[episode] = {row.call_id: row for row in rows}

    def cut_back(self, episode: EpisodeId, known: str | None) -> None:
        """Drop what is not this call or one that led to it; None: everything."""
        rows = self._rows.get(episode, {})
        line = frozenset(_ancestry(rows, known))
        self.undelivered += len(rows) - len(line)
        self._rows[episode] = {call_id: row for call_id, row in rows.items() if call_id in line}

    def end(self, episode: EpisodeId) -> None:
        """Forget the calls of this episode."""
        self._rows.pop(episode, None)

    def drop(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Forget the calls of these episodes."""
        self._rows = {episode: rows for episode, rows in self._rows.items() if not gone(episode)}


def _ancestry(rows: dict[str, LedgerRow], call_id: str | None) -> Iterable[str]:
    while call_id is not None and (row := rows.get(call_id)) is not None:
        yield call_id
        call_id = row.parent
