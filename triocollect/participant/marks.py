"""Which attempts are retired. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, final

from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, Refusal


def up_to(episodes: Iterable[EpisodeId]) -> Callable[[EpisodeId], bool]:
    """Whether an attempt is one of these, or comes before one of them in its rollout."""
    highest = {episode.rollout_id: episode.attempt for episode in sorted(episodes)}
    return lambda episode: episode.attempt <= highest.get(episode.rollout_id, -1)


@final
class Marks:
    """The highest retired attempt of each rollout. Never lowered, so a late request stays refused."""

    def __init__(self) -> None:
        self._highest: Final[dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._highest)

    def retire(self, episodes: Iterable[EpisodeId]) -> None:
        """Refuse these attempts and all before them."""
        for episode in episodes:
            self._raise_to(episode.rollout_id, episode.attempt)

    def install(self, episodes: Iterable[EpisodeId]) -> None:
        """These attempts continue from a checkpoint: all before them are over."""
        for episode in episodes:
            self._raise_to(episode.rollout_id, episode.attempt - 1)

    def retired(self, episode: EpisodeId) -> bool:
        """Whether this attempt is over: what is still held of it can be freed."""
        return episode.attempt <= self._highest.get(episode.rollout_id, -1)

    def refusal(self, episode: EpisodeId) -> Refusal | None:
        """Why work of this attempt is not taken, with the attempt that the caller's next has to be above."""
        if not self.retired(episode):
            return None
        highest = self._highest[episode.rollout_id]
        return Refusal(
            code=Code.STALE_ATTEMPT,
            detail=f"{episode.rollout_id}: attempt {episode.attempt} is retired, as all are up to {highest}",
            retired_through=highest,
        )

    def highest(self) -> dict[str, int]:
        """The highest retired attempt by rollout."""
        return dict(self._highest)

    def take_over(self, highest: Mapping[str, int]) -> None:
        """These, and no others."""
        self._highest.clear()
        self._highest.update(highest)

    def forget(self, rollout_ids: Iterable[str]) -> None:
        """Nothing of these rollouts can arrive any more."""
        for rollout_id in rollout_ids:
            self._highest.pop(rollout_id, None)

    def clear(self) -> None:
        """Another run takes over; its rollouts have nothing to do with these."""
        self._highest.clear()

    def _raise_to(self, rollout_id: str, attempt: int) -> None:
        if attempt > self._highest.get(rollout_id, -1):
            self._highest[rollout_id] = attempt
