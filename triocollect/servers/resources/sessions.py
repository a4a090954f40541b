"""The sessions of one resources server, found by their episode or by the cookie they were given."""

import secrets
from collections.abc import Iterator
from typing import Final, Generic, TypeVar, final

import msgspec

from triocollect.protocol.ids import EpisodeId

S = TypeVar("S")


class Session(msgspec.Struct, Generic[S]):
    """One episode's session. With a state that is plain data, all of it can be written down and put back."""

    episode: EpisodeId
    cookie: str
    state: S


@final
class Sessions(Generic[S]):
    """The open sessions. A cookie is the rollout's name and something random: it can outlive an attempt.

    Gym 0.7.0's agents close none: of more than `most` the one that was used longest ago is closed.
    """

    def __init__(self, most: int = 65_536) -> None:
        self._most: Final = most
        self._by_episode: Final[dict[EpisodeId, Session[S]]] = {}  # the one that was used longest ago first
        self._by_cookie: Final[dict[str, Session[S]]] = {}

    def __len__(self) -> int:
        return len(self._by_episode)

    def __iter__(self) -> Iterator[Session[S]]:
        return iter(tuple(self._by_episode.values()))

    def open(self, episode: EpisodeId, state: S) -> Session[S]:
        """A fresh session; an earlier one of the same episode is gone, as with Gym 0.7.0's servers."""
        return self.put(Session(episode, f"{episode.rollout_id}.{secrets.token_urlsafe(16)}", state))

    def put(self, session: Session[S]) -> Session[S]:
        """Open a session as it was, cookie and all, in place of one of the same episode."""
        if (earlier := self._by_episode.get(session.episode)) is not None:
            self.close(earlier)
        self._by_episode[session.episode] = self._by_cookie[session.cookie] = session
        if len(self) > self._most:
            self.close(next(iter(self._by_episode.values())))
        return session

    def find(self, episode: EpisodeId | None, cookie: str | None) -> Session[S] | None:
        """By the episode where one is named; only else by the cookie."""
        if episode is not None:
            session = self._by_episode.get(episode)
        else:
            session = None if cookie is None else self._by_cookie.get(cookie)
        if session is not None:
            self._by_episode[session.episode] = self._by_episode.pop(session.episode)
        return session

    def close(self, session: Session[S]) -> None:
        """Free the state of an open session."""
        del self._by_episode[session.episode], self._by_cookie[session.cookie]


def rollout_of_cookie(cookie: str) -> str:
    """The rollout whose session a cookie of ours is, by which it finds the process that has it; "": none."""
    return cookie.rpartition(".")[0]
