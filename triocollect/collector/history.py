"""What earlier runs of a checkpoint directory did with the rows that are left, by rollout id."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from triocollect.checkpoint.plan import Tried
from triocollect.checkpoint.sent import Sent
from triocollect.collector.resume import Survey
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.rows.types import Row

_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


@frozen
class History:
    """`tried` rows that are left, `floor` and `start` (see `Sent`), and what the log keeps of `others`.

    Those are rollouts without a result that this run does not send: of rows beyond its limit, or that have
    failed for good by its settings. Another run may send them. `answered`: see `Sent`.
    """

    tried: dict[str, Tried]
    floor: int
    others: Mapping[str, int]
    answered: Mapping[str, int]
    start: int
    senders: Mapping[str, str] = _NOBODY  # other outputs that have sent the highest attempt of a rollout

    def highest(self) -> dict[RowKey, int]:
        """The highest attempt used of each that is left."""
        return {row.key: row.highest for row in self.tried.values()}

    def attempts(self) -> dict[str, int]:
        """The highest of all by rollout id, as the dispatch log keeps it."""
        return {**self.others, **{rollout_id: row.highest for rollout_id, row in self.tried.items()}}


def history_of(
    rows: Iterable[Row],
    survey: Survey,
    sent: Sent,
    named: Iterable[EpisodeId],
    senders: Mapping[str, str] = _NOBODY,
) -> History:
    """Put together what output, sidecar, dispatch log and checkpoints (`named` episodes) know.

    Holds only rows that are left and were tried, and what the log knows of others without a result; reads
    `rows` once. Where lines of the dispatch log are lost, any row may have been sent below the floor, and all
    that are left count as tried.
    """
    used, replied = survey.used_attempts(), survey.replied_attempts()
    in_checkpoints: dict[str, int] = {}
    for episode in named:
        in_checkpoints[episode.rollout_id] = max(episode.attempt, in_checkpoints.get(episode.rollout_id, -1))
    shown = max([*used.values(), *in_checkpoints.values(), *sent.attempts.values()], default=-1)
    sent = sent.above(shown)
    tried: dict[str, Tried] = {}
    others, answered = dict(sent.attempts), dict(sent.answered)
    for row in rows:
        rollout_id, key = row.rollout_id, row.key
        if key in survey.done:
            others.pop(rollout_id, None)
            answered.pop(rollout_id, None)
        if not survey.is_left(key):
            continue
        others.pop(rollout_id, None)
        attempts = (used.get(key), sent.attempts.get(rollout_id), in_checkpoints.get(rollout_id))
        known = [attempt for attempt in attempts if attempt is not None]
        if sent.floor:
            known.append(sent.floor - 1)
        if known:
            ended = [one for one in (replied.get(key), answered.get(rollout_id)) if one is not None]
            tried[rollout_id] = Tried(
                key=key,
                highest=max(known),
                sent=sent.attempts.get(rollout_id),
                replied=max(ended, default=None),
                ours=rollout_id not in senders,
            )
    return History(tried, sent.floor, others, answered, sent.start, senders)
