"""The open sessions of one resources server: what a checkpoint takes of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar, final

from triocollect.participant import Admission, episode_of
from triocollect.participant.restoring import Restoring
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Mode
from triocollect.servers.resources.sessions import Session, Sessions
from triocollect.servers.states import give_back, keep

S = TypeVar("S")


class SessionRecord(Record, frozen=True, kw_only=True):
    """`cookie`: by which a caller that names no episode knows the session."""

    cookie: str


@final
class OpenSessions(Restoring[SessionRecord, None], Generic[S]):
    """All sessions. `restored` names those that were restored and that no request has been for."""

    def __init__(self, instance: str, admission: Admission, mode: Mode, state_type: type[S]) -> None:
        super().__init__("resources", instance, admission, SessionRecord)
        self.mode = mode
        self._state_type: Final = state_type
        self._sessions: Final = Sessions[S]()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, episode: EpisodeId, state: S) -> Session[S]:
        """A fresh session, in place of whatever the episode had here."""
        self.restored.pop(episode, None)
        return self._sessions.open(episode, state)

    def find(self, episode: EpisodeId | None, cookie: str | None) -> Session[S] | None:
        """The session, which is no longer unclaimed by that."""
        session = self._sessions.find(episode, cookie)
        if session is not None:
            self.restored.pop(session.episode, None)
        return session

    def end(self, session: Session[S]) -> None:
        """Free the state of an open session."""
        self._sessions.close(session)
        self.freed(session.episode)

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Close the sessions of these episodes."""
        super().free(gone)
        for session in self._sessions:
            if gone(session.episode):
                self._sessions.close(session)

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Close restored sessions that no request has been for."""
        self.free((self.restored.keys() - (keep or frozenset())).__contains__)

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[SessionRecord]:
        """Every session of the scope."""
        return [
            SessionRecord(
                rollout_id=session.episode.rollout_id,
                attempt=session.episode.attempt,
                kind="resources",
                state=keep(session.state),
                cookie=session.cookie,
            )
            for session in self._sessions
            if session.episode in scope
        ]

    async def install(
        self, records: Sequence[SessionRecord], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Open each session again, for the attempt to come. Raises StateError."""
        sessions = [
            Session(becomes[name], record.cookie, give_back(record.state, self._state_type))
            for record in records
            if (name := episode_of(record)) in becomes
        ]
        await self.discard(None)
        self.restored = {self._sessions.put(session).episode: None for session in sessions}
        return tuple(self.restored)
