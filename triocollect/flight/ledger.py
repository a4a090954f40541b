"""Where each unfinished row stands, and which attempt of it is next. Pure: no clock, no I/O.

It holds rows that are in flight, restored, or known to have been tried; never a finished one, so it follows
concurrency and failures, not the data set.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from triocollect.protocol.ids import EpisodeId, RowKey


class Ledger:
    """The rules of attempts. Facts that change together change in one call."""

    def __init__(self, tried: Mapping[RowKey, int] | None = None, *, floor: int = 0) -> None:
        """`tried` is the highest attempt known to be used, for rows that were tried before.

        No row starts below `floor`: above 0, one that is not named may have been tried as well.
        """
        self._floor: Final = floor
        self._highest: Final = dict(tried or {})
        self.flying: Final[dict[RowKey, EpisodeId]] = {}
        self.restored: Final[dict[RowKey, EpisodeId]] = {}  # continued, not sent yet
        self.lost: Final[dict[RowKey, EpisodeId]] = {}  # no reply came: to be retired before the next attempt
        self.continuing: Final[set[RowKey]] = set()  # in flight from a restored boundary, not from the input
        self.sends = 0
        self.torn: Final[dict[RowKey, str]] = {}  # in flight, with a part gone: no cut can hold it, and why

    def restore(self, episodes: Iterable[tuple[RowKey, EpisodeId]]) -> None:
        """These are installed on the servers and wait to be sent as exactly that attempt."""
        for key, episode in episodes:
            self.restored[key] = episode
            self._highest[key] = max(episode.attempt, self._highest.get(key, 0))

    def next_attempt(self, key: RowKey) -> int:
        """Which attempt `start` will take."""
        if key in self.restored:
            return self.restored[key].attempt
        return max(self._floor, self._highest.get(key, -1) + 1)

    def start(self, key: RowKey, rollout_id: str) -> EpisodeId:
        """In flight begins: the row's next attempt, or its restored one."""
        assert key not in self.flying, f"{key} is in flight already"
        episode = EpisodeId(rollout_id, self.next_attempt(key))
        if self.restored.pop(key, None) is not None:
            self.continuing.add(key)
        self._highest[key] = episode.attempt
        self.flying[key] = episode
        self.sends += 1
        return episode

    def nothing_ran(self, key: RowKey) -> None:
        """No byte arrived anywhere: the same attempt may be sent again, from where it would have started."""
        continuing, torn = key in self.continuing, key in self.torn
        episode = self._land(key)
        if continuing:
            (self.lost if torn else self.restored)[key] = episode
        elif episode.attempt <= self._floor:
            del self._highest[key]
        else:
            self._highest[key] = episode.attempt - 1

    def no_reply(self, key: RowKey) -> None:
        """Something may run still: the attempt is used up."""
        self.lost[key] = self._land(key)

    def given_up(self, key: RowKey) -> None:
        """No reply came and this run sends the row no more; what may run still stays to be retired."""
        self.no_reply(key)
        self._highest.pop(key, None)

    def used_through(self, key: RowKey, attempt: int) -> None:
        """Somebody refuses every attempt up to this one."""
        self._highest[key] = max(attempt, self._highest.get(key, 0))

    def lose(self, key: RowKey, episode: EpisodeId) -> None:
        """An attempt of an earlier run, or one that was being installed, may be somewhere: it is used up."""
        self.lost[key] = episode
        self._highest[key] = max(episode.attempt, self._highest.get(key, 0))

    def retired(self, episodes: Mapping[RowKey, EpisodeId]) -> None:
        """These are stopped and refused everywhere: the next attempts of their rows may be sent."""
        for key, episode in episodes.items():
            if self.lost.get(key) == episode:
                del self.lost[key]

    def tear(self, why: str) -> None:
        """A participant restarted: its part of every row in flight, and of every restored one, is gone.

        Rows in flight go on, outside of every checkpoint; restored ones are to start from their input.
        """
        for key in self.flying:
            self.torn.setdefault(key, why)
        self.lost.update(self.restored)
        self.restored.clear()

    def replied(self, key: RowKey) -> None:
        """The environment answered and the answer is written; nothing of the row is left to remember."""
        self._land(key)
        self.lost.pop(key, None)
        self._highest.pop(key, None)

    def scope(self) -> frozenset[EpisodeId]:
        """What a checkpoint taken now would continue."""
        return frozenset(self.restored.values()) | frozenset(self.flying.values())

    def keys_of(self, episodes: Iterable[EpisodeId]) -> tuple[RowKey, ...]:
        """The rows of these that are unfinished still."""
        wanted = frozenset(episodes)
        unfinished = {**self.lost, **self.restored, **self.flying}
        return tuple(key for key, episode in unfinished.items() if episode in wanted)

    def _land(self, key: RowKey) -> EpisodeId:
        self.continuing.discard(key)
        self.torn.pop(key, None)
        return self.flying.pop(key)
