"""What earlier runs of a checkpoint directory did with the rows that are left, by rollout id."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from triocollect.checkpoint.dispatch_log import Sent
from triocollect.checkpoint.plan import Tried
from triocollect.collector.resume import Standing
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


@frozen
class History:
    """`tried` rows that are left, and the `floor` below which no row starts."""

    tried: dict[str, Tried]
    floor: int

    def highest(self) -> dict[RowKey, int]:
        """The highest attempt used of each."""
        return {row.key: row.highest for row in self.tried.values()}

    def attempts(self) -> dict[str, int]:
        """The same by rollout id, as the dispatch log keeps it."""
        return {rollout_id: row.highest for rollout_id, row in self.tried.items()}


def history_of(
    rows: Iterable[Row],
    standing: Standing,
    sent: Sent,
    named: Iterable[EpisodeId],
    answered: Mapping[str, int] = _NOTHING,
) -> History:
    """Put together what output, sidecar, dispatch log and checkpoints (`named` episodes) know.

    Holds only rows that are left and were tried; reads `rows` once. Where lines of the dispatch log are lost,
    any row may have been sent below the floor, and all that are left count as tried. `answered`: attempts
    that ended in a run whose files are gone.
    """
    used, replied = standing.used_attempts(), standing.replied_attempts()
    in_checkpoints: dict[str, int] = {}
    for episode in named:
        in_checkpoints[episode.rollout_id] = max(episode.attempt, in_checkpoints.get(episode.rollout_id, -1))
    shown = max([*used.values(), *in_checkpoints.values(), *sent.attempts.values()], default=-1)
    sent = sent.above(shown)
    tried: dict[str, Tried] = {}
    for row in standing.left(rows):
        rollout_id, key = row.rollout_id, row.key
        attempts = (used.get(key), sent.attempts.get(rollout_id), in_checkpoints.get(rollout_id))
        known = [attempt for attempt in attempts if attempt is not None]
        if sent.floor:
            known.append(sent.floor - 1)
        if known:
            tried[rollout_id] = Tried(
                key=key,
                highest=max(known),
                sent=sent.attempts.get(rollout_id),
                replied=replied.get(key, answered.get(rollout_id)),
            )
    return History(tried, sent.floor)
