"""The hooks that an admission answers by itself: a server author subclasses this and adds the rest."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic

from triocollect.participant.admission import Admission
from triocollect.participant.hooks import Later, R
from triocollect.participant.marks import up_to
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Kind, Mode, PrepareReport


class Participant(Generic[R]):
    """A server whose work goes through one `Admission`, and of which nothing can be captured.

    As it is, every episode that was served begins anew after a restart: it is reported until it is stopped,
    forgotten or said to be `freed`; who overrides `stop`, `forget` or `clear` calls the one here first.
    A server that keeps nothing sets `mode` to "stateless". One that can write its state down sets it to
    "exported" and overrides these three, `export`, `install`, `discard` and `restored_pending`.
    """

    workers = 1
    can_cut = False
    mode: Mode = "restart_only"  # what cannot be captured is never taken for captured by an oversight

    def __init__(self, kind: Kind, instance: str, admission: Admission, record_type: type[R]) -> None:
        self.kind: Kind = kind
        self.instance = instance
        self.record_type = record_type
        self.admission: Final = admission
        self._not_captured: set[EpisodeId] = set()
        admission.on_entry = self._entered

    def close(self) -> None:
        """Nothing beyond the admission's own closing."""

    def open(self) -> None:
        """Nothing beyond the admission's own opening."""

    def report(self) -> PrepareReport:
        """What the admission knows, and whom a restart plays again."""
        return self.admission.report(self._not_captured)

    async def settle(self) -> None:
        """Wait for a change in the admission."""
        await self.admission.settle()

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[R] | Later[R]:  # noqa: ARG002  # of the protocol
        """Nothing."""
        return ()

    def kept(self) -> Sequence[str]:
        """Nothing."""
        return ()

    async def install(
        self,
        records: Sequence[R],  # noqa: ARG002  # of the protocol
        becomes: Mapping[EpisodeId, EpisodeId],  # noqa: ARG002  # of the protocol
    ) -> Sequence[EpisodeId]:
        """Nothing."""
        return ()

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Nothing to drop."""

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """Cancel the work of these attempts and wait until it is gone."""
        await self.admission.stop(episodes)
        over = up_to(episodes)
        self._not_captured = {one for one in self._not_captured if not over(one)}

    def freed(self, episode: EpisodeId) -> None:
        """Nothing is kept of this episode any more: the server's own word, for when it ends a session."""
        self._not_captured.discard(episode)
        self.admission.freed(episode)

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """Nothing to free but who was served."""
        finished = frozenset(rollout_ids)
        self._not_captured = {one for one in self._not_captured if one.rollout_id not in finished}

    async def clear(self) -> None:
        """Nothing to free but who was served."""
        self._not_captured.clear()

    async def in_force(self) -> None:
        """At once: there is nobody else to tell."""

    def live(self) -> bool:
        """Whether work is under way."""
        return bool(self.admission.works)

    def served(self) -> bool:
        """Whether work was admitted."""
        return self.admission.served

    def restored_pending(self) -> int:
        """Nothing is ever installed."""
        return 0

    def _entered(self, episode: EpisodeId) -> None:
        if self.mode == "restart_only":
            self._not_captured.add(episode)
