"""Names of rows, rollouts and episodes: parse and print."""

import re
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

MAX_INDEX: Final = 1 << 32  # task and rollout indices are below this: a key packs into one integer
MOST_ATTEMPTS: Final = 10**9  # attempts are below: any peer's integers hold them

Attempt: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_ATTEMPTS)]

# Letters, digits, dot, underscore, hyphen; first a letter or digit (what the servers of Gym 0.7.0 accept).
_ROLLOUT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ATTEMPT_SUFFIX: Final = re.compile(r"-a[0-9]+\Z")
_LATER_ATTEMPT: Final = re.compile(r"-a([1-9][0-9]{0,8})\Z")


class RowKey(NamedTuple):
    """One line of work after repeats are expanded: (task index, rollout index)."""

    task: int
    rollout: int

    def __str__(self) -> str:
        return f"{self.task}-{self.rollout}"


class EpisodeId(msgspec.Struct, frozen=True, order=True):
    """One physical execution of a rollout. Attempt 0 is the first; attempts are never reused."""

    rollout_id: str
    attempt: Attempt = 0

    @property
    def capture_key(self) -> str:
        """`<rollout id>` for attempt 0, `<rollout id>-a<N>` after."""
        return self.rollout_id if self.attempt == 0 else f"{self.rollout_id}-a{self.attempt}"

    @classmethod
    def parse(cls, capture_key: str) -> "EpisodeId":
        """The inverse of `capture_key`. Raises ValueError for what no episode can be called."""
        later = _LATER_ATTEMPT.search(capture_key)
        episode = cls(capture_key) if later is None else cls(capture_key[: later.start()], int(later[1]))
        if (fault := rollout_id_fault(episode.rollout_id)) is not None:
            raise ValueError(fault)
        return episode


def rollout_id_fault(rollout_id: str) -> str | None:
    """Why this cannot be a rollout id, in words; None when it can."""
    if not _ROLLOUT_ID.fullmatch(rollout_id):
        return (
            f"{rollout_id!r}: a rollout id has letters, digits, '.', '_', '-' "
            "and begins with a letter or digit"
        )
    if _ATTEMPT_SUFFIX.search(rollout_id):
        return f"{rollout_id!r}: a rollout id must not end in -a<number>, which marks an attempt"
    return None
