"""Sessions whose state is plain data: all that a server needs that keeps nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar, final

from triocollect.participant.admission import Admission
from triocollect.participant.hooks import episode_of
from triocollect.participant.restoring import Restoring
from triocollect.participant.state import decode_state, encode_state
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Kind, Mode
from triocollect.protocol.values import Json

S = TypeVar("S")


@final
class Sessions(Restoring[Record, None], Generic[S]):
    """One state per episode, at its boundary between any two requests.

    `dump` makes plain JSON types of a state (see `encode_state`) and `load` a state of them, with all that
    the next request depends on, random generators included: another process goes on from nothing else. What
    they raise fails the commit or the restore, with its words.
    """

    mode: Mode = "exported"

    def __init__(
        self,
        kind: Kind,
        instance: str,
        admission: Admission,
        *,
        dump: Callable[[S], Json],
        load: Callable[[Json], S],
    ) -> None:
        super().__init__(kind, instance, admission, Record)
        self._dump: Final = dump
        self._load: Final = load
        self._states: dict[EpisodeId, S] = {}

    def begin(self, episode: EpisodeId, state: S) -> None:
        """A fresh session, in place of whatever the episode had here."""
        self._states[episode] = state
        self.restored.pop(episode, None)

    def find(self, episode: EpisodeId) -> S | None:
        """The state, to be read and changed in place; None where no session is open."""
        self.restored.pop(episode, None)
        return self._states.get(episode)

    def end(self, episode: EpisodeId) -> None:
        """Free the session, if there is one."""
        self._states.pop(episode, None)
        self.restored.pop(episode, None)
        self.freed(episode)

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """End the sessions of these episodes."""
        super().free(gone)
        self._states = {episode: state for episode, state in self._states.items() if not gone(episode)}

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """End restored sessions that nobody has claimed."""
        self.free((self.restored.keys() - (keep or frozenset())).__contains__)

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[Record]:
        """Every session of the scope. Raises StateError for a state that JSON would change."""
        return [
            Record(
                rollout_id=episode.rollout_id,
                attempt=episode.attempt,
                kind=self.kind,
                state=encode_state(episode, self._dump(state)),
            )
            for episode, state in self._states.items()
            if episode in scope
        ]

    async def install(
        self, records: Sequence[Record], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Begin each session again where it stood, for the attempt to come. Raises StateError."""
        states = {
            becomes[name]: self._load(decode_state(record.state))
            for record in records
            if (name := episode_of(record)) in becomes
        }
        await self.discard(None)
        self._states |= states
        self.restored = dict.fromkeys(states)
        return tuple(states)
