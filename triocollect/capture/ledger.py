"""What is kept of the calls of all episodes. Pure: a change is an entry, and entries alone change it.

A row is written once, when its response is released to the caller, and names the call that the caller knew
last. A caller that goes on from a checkpoint may know less than the ledger: a response that was sent and
never read before the cut. Its first call says how far it knows, and what lies beyond is dropped.

A retired attempt is fenced before anything of it is removed: a row of it that comes late is refused, and all
before it in its rollout are retired with it. What a restore installs replaces whatever dead executions left
of that rollout, rows and fences of later attempts among them, and fences every earlier one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, final

import msgspec

from triocollect.capture.rows import LedgerRow, line_to
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal


class Delivered(msgspec.Struct, frozen=True, tag_field="do", tag="row"):
    """A call of this episode was answered."""

    episode: EpisodeId
    row: LedgerRow


class Imported(msgspec.Struct, frozen=True, tag_field="do", tag="import"):
    """A restore: these are the rows of this rollout, and there are no others."""

    episode: EpisodeId
    rows: tuple[LedgerRow, ...]


class CutBack(msgspec.Struct, frozen=True, tag_field="do", tag="cut_back"):
    """Its caller knows the line of calls up to `known` and no more."""

    episode: EpisodeId
    known: str | None


class Retired(msgspec.Struct, frozen=True, tag_field="do", tag="retire"):
    """These attempts are over, and all before them of the same rollouts."""

    episodes: tuple[EpisodeId, ...]


class Deleted(msgspec.Struct, frozen=True, tag_field="do", tag="delete"):
    """These episodes make no call any more; nothing of them is refused by that."""

    episodes: tuple[EpisodeId, ...]


class Forgotten(msgspec.Struct, frozen=True, tag_field="do", tag="forget"):
    """Nothing of these rollouts can arrive any more: rows and fences go. None: of all."""

    rollout_ids: tuple[str, ...] | None


class Snapshot(msgspec.Struct, frozen=True, tag_field="do", tag="snapshot"):
    """All that there is: rows by episode, and by rollout the highest attempt that is retired."""

    kept: tuple[Imported, ...]
    fences: dict[str, int]


Entry: TypeAlias = Delivered | Imported | CutBack | Retired | Deleted | Forgotten | Snapshot


@final
class Ledger:
    """The rows of each episode, and up to which attempt each rollout is retired.

    `undelivered`: how many rows that were kept turned out not to be known to their caller.
    """

    def __init__(self) -> None:
        self._rows: Final[dict[EpisodeId, dict[str, LedgerRow]]] = {}
        self._of: Final[dict[str, set[EpisodeId]]] = {}  # those that it has rows of, by rollout
        self._fences: Final[dict[str, int]] = {}
        self.undelivered = 0

    def __len__(self) -> int:
        """How many episodes it has rows of."""
        return len(self._rows)

    @property
    def fenced(self) -> Sequence[str]:
        """The rollouts of which attempts are retired."""
        return tuple(self._fences)

    @property
    def episodes(self) -> Sequence[EpisodeId]:
        """Those that it has rows of."""
        return tuple(self._rows)

    def rows(self, episode: EpisodeId) -> Sequence[LedgerRow]:
        """The calls of an episode, in the order of their delivery."""
        return tuple(self._rows.get(episode, {}).values())

    def refusal(self, episode: EpisodeId, row: LedgerRow | None = None) -> Refusal | None:
        """Why no call, or not this row, is taken of an episode; the same row again is fine."""
        if episode.attempt <= (through := self._fences.get(episode.rollout_id, -1)):
            all_of_them = f"as all of {episode.rollout_id} are up to {through}"
            return Refusal(
                code=Code.RETIRED,
                detail=f"{episode.capture_key} is retired, {all_of_them}",
                retired_through=through,
            )
        known = None if row is None else self._rows.get(episode, {}).get(row.call_id)
        if known is not None and known != row:
            return Refusal(
                code=Code.CHECKPOINT_CONFLICT,
                detail=f"call {known.call_id} of {episode.capture_key} is in the ledger, and is another one",
            )
        return None

    def apply(self, entry: Entry) -> None:
        """Carry out a change; what it asks for may be so already. A row that is refused changes nothing."""
        match entry:
            case Delivered(episode, row):
                self._deliver(episode, row)
            case Imported(episode, rows):
                self._import(episode, rows)
            case CutBack(episode, known):
                self._cut_back(episode, known)
            case Retired(episodes):
                self._retire(episodes)
            case Deleted(episodes):
                self._drop(episodes)
            case Forgotten(rollout_ids):
                self._forget(rollout_ids)
            case Snapshot():
                self._forget(None)
                self.take_over(entry, lambda _name: True)

    def take_over(self, later: Snapshot, whose: Callable[[str], bool]) -> None:
        """Of these rollouts what a later ledger says, and nothing that was known here."""
        self._forget(tuple(filter(whose, {*self._of, *self._fences})))
        for one in later.kept:
            if whose(one.episode.rollout_id):
                self._calls_of(one.episode).update(_by_id(one.rows))
        self._fences.update((name, through) for name, through in later.fences.items() if whose(name))

    def snapshot(self) -> "Snapshot":
        """The one entry that makes a ledger like this."""
        kept = [Imported(episode, tuple(rows.values())) for episode, rows in self._rows.items()]
        return Snapshot(tuple(kept), dict(self._fences))

    def _deliver(self, episode: EpisodeId, row: LedgerRow) -> None:
        if self.refusal(episode, row) is None:
            self._calls_of(episode)[row.call_id] = row

    def _import(self, episode: EpisodeId, rows: tuple[LedgerRow, ...]) -> None:
        self._drop(self._attempts((episode.rollout_id,)))
        self._fences[episode.rollout_id] = episode.attempt - 1
        if rows:
            self._calls_of(episode).update(_by_id(rows))

    def _retire(self, episodes: tuple[EpisodeId, ...]) -> None:
        for episode in episodes:
            through = self._fences.get(episode.rollout_id, -1)
            self._fences[episode.rollout_id] = max(through, episode.attempt)
        touched = self._attempts(episode.rollout_id for episode in episodes)
        self._drop([one for one in touched if self.refusal(one) is not None])

    def _cut_back(self, episode: EpisodeId, known: str | None) -> None:
        if (rows := self._rows.get(episode)) is None:
            return
        line = frozenset(line_to(rows, known))
        self.undelivered += len(rows) - len(line)
        self._rows[episode] = {call_id: row for call_id, row in rows.items() if call_id in line}

    def _drop(self, episodes: Iterable[EpisodeId]) -> None:
        for episode in episodes:
            if self._rows.pop(episode, None) is None:
                continue
            attempts = self._of[episode.rollout_id]
            attempts.remove(episode)
            if not attempts:
                del self._of[episode.rollout_id]

    def _calls_of(self, episode: EpisodeId) -> dict[str, LedgerRow]:
        """To be added to; from now on it is there."""
        self._of.setdefault(episode.rollout_id, set()).add(episode)
        return self._rows.setdefault(episode, {})

    def _attempts(self, rollout_ids: Iterable[str]) -> list[EpisodeId]:
        """Of these rollouts all that it has rows of."""
        return [one for rollout_id in rollout_ids for one in self._of.get(rollout_id, ())]

    def _forget(self, rollout_ids: tuple[str, ...] | None) -> None:
        if rollout_ids is None:
            for one in (self._rows, self._of, self._fences):
                one.clear()
            return
        self._drop(self._attempts(rollout_ids))
        for rollout_id in rollout_ids:
            self._fences.pop(rollout_id, None)


def _by_id(rows: Iterable[LedgerRow]) -> dict[str, LedgerRow]:
    return {row.call_id: row for row in rows}
