"""The hooks that an admission answers by itself: a server author subclasses this and adds the rest."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic

from triocollect.participant.admission import Admission
from triocollect.participant.hooks import R
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Kind, Mode, PrepareReport


class Participant(Generic[R]):
    """A server whose work goes through one `Admission` and that holds no state: nothing to export.

    With state, override `export`, `install`, `discard`, `restored_pending`, `stop`, `forget` and `clear`;
    `stop` calls this one first and frees what is left.
    """

    mode: Mode = "stateless"

    def __init__(self, kind: Kind, instance: str, admission: Admission, record_type: type[R]) -> None:
        self.kind: Kind = kind
        self.instance = instance
        self.record_type = record_type
        self.admission: Final = admission

    def close(self) -> None:
        """Nothing beyond the admission's own closing."""

    def open(self) -> None:
        """Nothing beyond the admission's own opening."""

    def report(self) -> PrepareReport:
        """What the admission knows."""
        return self.admission.report()

    async def settle(self) -> None:
        """Wait for a change in the admission."""
        await self.admission.settle()

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[R]:  # noqa: ARG002  # of the protocol
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

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """Nothing to free."""

    async def clear(self) -> None:
        """Nothing to free."""

    def live(self) -> bool:
        """Whether work is under way."""
        return bool(self.admission.works)

    def served(self) -> bool:
        """Whether work was admitted."""
        return self.admission.served

    def restored_pending(self) -> int:
        """Nothing is ever installed."""
        return 0
