"""What a simulated server has in its memory: the one window that the oracle has into the product.

Whom a server works for, whether its door is closed, and what it keeps of an episode: all of it has to be so
at moments when nobody asks. What goes over the wire, into a file or an account is taken from there.
"""

from collections.abc import Collection

from attrs import frozen

from triocollect.protocol.ids import EpisodeId


@frozen
class Probe:
    """Of one participant."""

    _hooks: object

    @property
    def is_closed(self) -> bool:
        return self._hooks.admission.closed

    @property
    def is_held(self) -> bool:
        """Closed, and for some time to come."""
        return self.is_closed and self._hooks.admission.lease.left_s() > 0

    def look(self) -> None:
        """Come to the door, as whoever works there does: a lease that is over ends."""
        self._hooks.admission.end_expired_lease()

    @property
    def has_served(self) -> bool:
        return self._hooks.served()

    @property
    def waits_for_goodbye(self) -> bool:
        return self._hooks.admission.attendance.needed

    @property
    def at_work(self) -> set[EpisodeId]:
        """For whom."""
        return {one.episode for one in self._hooks.admission.works if one.episode is not None}

    @property
    def under_way(self) -> frozenset[EpisodeId]:
        """Episodes of an environment."""
        return frozenset(self._hooks.under_way)

    @property
    def episodes(self) -> set[EpisodeId]:
        """Of whom anything but a mark is kept."""
        match self._hooks.kind:
            case "environment":
                kept = self._hooks.under_way
            case "model":
                kept = self._hooks.ledger.episodes
            case "agent":
                kept = self._hooks._sessions  # noqa: SLF001
            case _:
                kept = [session.episode for session in self._hooks._sessions]  # noqa: SLF001
        return {*kept, *self._hooks.restored}

    def kept(self, rollout_ids: Collection[str]) -> dict[str, int]:
        """How much of any episode, by what it is.

        Marks are those of these rollouts: what a run that was stopped had retired, no later one can name.
        """
        hooks = self._hooks
        marks = sum(hooks.admission.marks.retired(EpisodeId(one, 0)) for one in rollout_ids)
        kept = {"marks": marks, "restored": hooks.restored_pending(), "works": len(hooks.admission.works)}
        match hooks.kind:
            case "environment":
                kept["under way"] = len(hooks.under_way)
            case "model":
                kept |= {"ledger": len(hooks.ledger), "calls": len(hooks.calls.serving)}
            case _:
                kept["sessions"] = len(hooks)
        return kept
