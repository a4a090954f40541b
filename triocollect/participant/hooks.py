"""What the author of a server implements, so that its work can be cut in two and continued.

Functions that are not `async` are called between two steps of the event loop and must not wait: what they see
and say is one instant. `Participant` in `base.py` has all that an `Admission` can answer by itself.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from triocollect.participant.operations import Refuse
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Kind, Mode, PrepareReport

R = TypeVar("R", bound=Record)
Later: TypeAlias = Callable[[], Awaitable[Sequence[R] | Refuse]]


def episode_of(record: Record) -> EpisodeId:
    """Whose record it is."""
    return EpisodeId(record.rollout_id, record.attempt)


class Hooks(Protocol[R]):
    """The server behind a control plane. `record_type` is `Record` with the keys of this kind of server."""

    kind: Kind
    instance: str  # unique among the servers of its kind; names a folder: letters, digits, '.', '_', '-'
    mode: Mode
    record_type: type[R]
    workers: int  # how many processes it stands for
    can_cut: bool  # calls that a checkpoint finds in generation can be kept as far as they have come

    def close(self) -> None:
        """From now on nothing new is admitted. Once per prepare or restore; the admission is closed already.

        What it raises reopens the admission and fails the prepare.
        """

    def open(self) -> None:
        """The pause is over: by a resume, an abort, the lease's end or a newer run.

        The admission is open already and everybody who waited there is awake.
        """

    def report(self) -> PrepareReport:
        """Who still blocks, who cannot be captured (restarts never block), and counts: now."""
        ...

    async def settle(self) -> None:
        """Return when `report()` may have changed since this was called. May be cancelled."""

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[R] | Later[R]:
        """What this server holds of the scope's episodes, each at its boundary. Once per checkpoint.

        Restored state that nobody has claimed yet belongs to it. The records own what they hold: they are
        written later, by a thread. `encode_state` makes their `state`. Who has to ask other processes, or to
        wait for what is being staged, answers what is to be called for them; what that says is the same
        instant while this server is closed, and goes nowhere when it was opened meanwhile.
        """
        ...

    def kept(self) -> Sequence[str]:
        """Staging keys that the records just exported refer to; asked right after they are here."""
        ...

    async def install(
        self, records: Sequence[R], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Take up each record as the attempt that it becomes; all of them or, when this raises, none.

        Restored state that nobody has claimed is replaced. Answers the attempts that were installed. Never
        cancelled.
        """
        ...

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Drop restored state that nobody has claimed, but that of `keep` (None: drop all)."""

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """End these attempts and all before them of the same rollouts; return when their state is freed.

        The marks that refuse them stand already. Called again after it raised; what has ended is not ended
        twice.
        """

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """These rollouts are finished: free whatever they still hold."""

    async def clear(self) -> None:
        """A run has said goodbye, or another takes over, and nothing is live: free everything left of it."""

    async def in_force(self) -> None:
        """Return when other processes, if there are any, obey all that was said here, and are known anew."""

    def live(self) -> bool:
        """Whether an episode or a call is under way. Left-over state alone is not live."""
        ...

    def served(self) -> bool:
        """Whether work was admitted since the start; installed state that nobody claimed does not count."""
        ...

    def restored_pending(self) -> int:
        """How many installed episodes nobody has claimed yet."""
        ...
