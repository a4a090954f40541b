"""What participants that keep state have in common: restored state that nobody has claimed yet."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from triocollect.participant.admission import Admission
from triocollect.participant.base import Participant
from triocollect.participant.hooks import R
from triocollect.participant.marks import up_to
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Kind

S = TypeVar("S")


class Restoring(Participant[R], Generic[R, S]):
    """A participant that keeps something of each episode. A subclass exports, installs, and frees its own.

    `restored` is what a restore brought and nobody has claimed: a subclass takes an episode out of it at the
    first request for it. Its `mode` is the subclass's to say.
    """

    def __init__(self, kind: Kind, instance: str, admission: Admission, record_type: type[R]) -> None:
        super().__init__(kind, instance, admission, record_type)
        self.restored: dict[EpisodeId, S] = {}

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Drop all that is kept of these episodes."""
        self.restored = {name: state for name, state in self.restored.items() if not gone(name)}

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Drop restored state that nobody has claimed."""
        kept = keep or frozenset()
        self.restored = {name: state for name, state in self.restored.items() if name in kept}

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """End the work of these attempts and of those before them, then free their state."""
        await super().stop(episodes)
        self.free(up_to(episodes))

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """Free what is left of these rollouts."""
        super().forget(rollout_ids)
        finished = frozenset(rollout_ids)
        self.free(lambda name: name.rollout_id in finished)

    async def clear(self) -> None:
        """Free everything."""
        await super().clear()
        self.free(lambda _name: True)

    def restored_pending(self) -> int:
        """How many episodes nobody has claimed."""
        return len(self.restored)
