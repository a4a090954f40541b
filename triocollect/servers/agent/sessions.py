"""All agent sessions of this process, each at its latest boundary: what a checkpoint takes of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from msgspec.structs import replace

from triocollect.participant import Admission, episode_of
from triocollect.participant.restoring import Restoring
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Mode, PrepareReport
from triocollect.servers.agent.session import Session
from triocollect.servers.states import give_back, keep


@final
class AgentSessions(Restoring[Record, Session]):
    """The sessions that are open, and those that were restored and that nobody has asked for."""

    mode: Mode = "exported"

    def __init__(self, instance: str, admission: Admission) -> None:
        super().__init__("agent", instance, admission, Record)
        self._sessions: dict[EpisodeId, Session] = {}
        self._torn: Final[set[EpisodeId]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: Session) -> None:
        """A fresh session, in place of whatever the episode had here."""
        self.restored.pop(session.episode, None)
        self._torn.discard(session.episode)
        self._sessions[session.episode] = session

    def find(self, episode: EpisodeId) -> Session | None:
        """The session, which is no longer unclaimed by that."""
        if (restored := self.restored.pop(episode, None)) is not None:
            self._sessions[episode] = restored
        return self._sessions.get(episode)

    def at_boundary(self, session: Session) -> None:
        """This is where the session stands now, unless it was ended meanwhile."""
        if session.episode in self._sessions:
            self._torn.discard(session.episode)
            self._sessions[session.episode] = session

    def tear(self, episode: EpisodeId) -> None:
        """A tool was called and nobody knows whether it had its effect: no cut can hold the session now."""
        if episode in self._sessions:
            self._torn.add(episode)

    def report(self) -> PrepareReport:
        """What is torn is a restart."""
        return self.admission.report(restarts=self._torn)

    def end(self, episode: EpisodeId) -> bool:
        """Whether there was a session to end."""
        restored = self.restored.pop(episode, None)
        self._torn.discard(episode)
        self.freed(episode)
        return self._sessions.pop(episode, restored) is not None

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Drop all sessions of these episodes."""
        super().free(gone)
        self._sessions = {name: one for name, one in self._sessions.items() if not gone(name)}
        self._torn.intersection_update(self._sessions)

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[Record]:
        """Every session of the scope that is here."""
        return [
            Record(rollout_id=name.rollout_id, attempt=name.attempt, kind="agent", state=keep(session))
            for name, session in {**self._sessions, **self.restored}.items()
            if name in scope
        ]

    async def install(
        self, records: Sequence[Record], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Keep each session until it is asked for, as that of the attempt to come. Raises StateError."""
        self.restored = {
            becomes[name]: replace(give_back(record.state, Session), episode=becomes[name])
            for record in records
            if (name := episode_of(record)) in becomes
        }
        return tuple(self.restored)
