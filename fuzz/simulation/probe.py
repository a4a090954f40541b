"""What a simulated server has in its memory: the one window that the oracle has into the product.

Whom a server works for, whether its door is closed, and what it keeps of an episode: all of it has to be so
at moments when nobody asks. What goes over the wire, into a file or an account is taken from there.
"""

from collections import Counter
from collections.abc import Callable, Collection

from attrs import frozen

from triocollect.protocol.ids import EpisodeId


@frozen
class Probe:
    """Of one participant: the admission of its control plane, the hooks of each process of it that serves,

    and what a coordinator knows of its workers.
    """

    _door: object
    _all: Callable[[], Collection]
    _crew: object = None

    @property
    def is_to_be_closed(self) -> bool:
        """Whether it has taken the word."""
        return self._door.closed

    @property
    def closing(self) -> int:
        """A number of the latest time that it did, where there are several workers."""
        return 0 if self._crew is None else self._crew.generation

    @property
    def is_closed(self) -> bool:
        """Anywhere."""
        return self._door.closed or any(hooks.admission.closed for hooks in self._all())

    @property
    def is_shut(self) -> bool:
        """Everywhere."""
        return self._door.closed and all(hooks.admission.closed for hooks in self._all())

    @property
    def is_held(self) -> bool:
        """Shut, and for some time to come."""
        return self.is_shut and self._door.lease.left_s() > 0

    def look(self) -> None:
        """Come to the door, as whoever works there does: a lease that is over ends."""
        self._door.end_expired_lease()

    @property
    def has_served(self) -> bool:
        return any(hooks.served() for hooks in self._all()) or (self._crew is not None and self._crew.served)

    @property
    def waits_for_goodbye(self) -> bool:
        return self._door.attendance.needed

    @property
    def at_work(self) -> set[EpisodeId]:
        """For whom."""
        works = (one for hooks in self._all() for one in hooks.admission.works)
        return {one.episode for one in works if one.episode is not None}

    @property
    def under_way(self) -> frozenset[EpisodeId]:
        """Episodes of an environment."""
        return frozenset(episode for hooks in self._all() for episode in hooks.under_way)

    @property
    def restored(self) -> frozenset[EpisodeId]:
        """Records that wait for who goes on from them."""
        return frozenset(episode for hooks in self._all() for episode in hooks.restored)

    @property
    def episodes(self) -> set[EpisodeId]:
        """Of whom anything but a mark is kept."""
        return {episode for hooks in self._all() for episode in _episodes(hooks)}

    def kept(self, rollout_ids: Collection[str]) -> dict[str, int]:
        """How much of any episode, by what it is.

        Marks are those of these rollouts: what a run that was stopped had retired, no later one can name.
        """
        kept = Counter(marks=_marks(self._door, rollout_ids))
        for hooks in self._all():
            kept.update(_kept(hooks, rollout_ids))
        if self._crew is not None:
            parts = (*self._crew._parts.values(), *self._crew._lost.values())  # noqa: SLF001
            kept["parts"] = sum(rollout_id in part for part in parts for rollout_id in rollout_ids)
        return dict(kept)


def _episodes(hooks) -> set[EpisodeId]:
    match hooks.kind:
        case "environment":
            kept = hooks.under_way
        case "model":
            kept = hooks.ledger.episodes
        case "agent":
            kept = hooks._sessions  # noqa: SLF001
        case _:
            kept = [session.episode for session in hooks._sessions]  # noqa: SLF001
    return {*kept, *hooks.restored}


def _marks(admission, rollout_ids: Collection[str]) -> int:
    return sum(admission.marks.retired(EpisodeId(one, 0)) for one in rollout_ids)


def _kept(hooks, rollout_ids: Collection[str]) -> dict[str, int]:
    kept = {
        "marks": _marks(hooks.admission, rollout_ids),
        "restored": hooks.restored_pending(),
        "works": len(hooks.admission.works),
    }
    match hooks.kind:
        case "environment":
            kept["under way"] = len(hooks.under_way)
        case "model":
            kept |= {"ledger": len(hooks.ledger), "calls": len(hooks.calls.serving)}
        case _:
            kept["sessions"] = len(hooks)
    return kept
