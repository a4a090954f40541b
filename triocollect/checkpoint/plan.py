"""What a restart continues, as which attempt, and what it has to retire first. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import Restarted
from triocollect.protocol.messages import RestoredEpisode

_NAMED: Final = 5


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is to be sent by this run and that an earlier one tried.

    `highest` is the highest attempt that output, sidecar, dispatch log or any checkpoint names; `sent` the
    highest of the dispatch log; `replied` the highest that was answered: by the sidecar (what was given up
    there, `agent_request_failed`, was not), or by the dispatch log where no other file says so, for its
    environment asked that nothing be written or a fresh run has forgotten the file. Not `ours`: the highest
    was sent by another output that shares the directory.
    """

    key: RowKey
    highest: int
    sent: int | None = None
    replied: int | None = None
    ours: bool = True


class Plan(msgspec.Struct, frozen=True):
    """`continued` is to be restored, `left_out` is not and why, `to_retire` may be running still.

    `of_others`: those of the last that another output has sent, under a name that this one's row has too.
    """

    continued: dict[RowKey, RestoredEpisode]
    left_out: dict[EpisodeId, str]
    to_retire: dict[RowKey, EpisodeId]
    of_others: frozenset[RowKey] = frozenset()

    @property
    def becoming(self) -> dict[RowKey, EpisodeId]:
        """The attempts that the continued rows go on as."""
        return {
            key: EpisodeId(episode.rollout_id, episode.becomes) for key, episode in self.continued.items()
        }


def plan(
    continued: Iterable[EpisodeId], tried: Mapping[str, Tried], *, floor: int = 0, start: int = 0
) -> Plan:
    """From a checkpoint's episodes and what is known of unfinished rows, by rollout id.

    A row that failed with an answer after the checkpoint starts from its input. An attempt that was sent, or
    installed, and brought no answer is retired before the row is sent again. Below `floor` any may have been:
    lines of the dispatch log are lost. No row goes on as an attempt below it, or below `start`.
    """
    restored: dict[RowKey, RestoredEpisode] = {}
    left_out: dict[EpisodeId, str] = {}
    for episode in continued:
        row = tried.get(episode.rollout_id)
        if row is None:
            left_out[episode] = "it is finished, or not among the rows"
        elif row.replied is not None and row.replied >= episode.attempt:
            left_out[episode] = f"attempt {row.replied} failed with an answer since"
        else:
            becomes = max(floor, start, 1 + max(row.highest, episode.attempt))
            restored[row.key] = RestoredEpisode(episode.rollout_id, episode.attempt, becomes=becomes)
    to_retire = {
        row.key: EpisodeId(rollout_id, last)
        for rollout_id, row in tried.items()
        if (last := max(_or_none(row.sent), floor - 1)) > _or_none(row.replied)
    }
    of_others = frozenset(row.key for row in tried.values() if row.key in to_retire and not row.ours)
    return Plan(restored, left_out, to_retire, of_others)


def left_out_of_the_cut(restarted: Iterable[Restarted], tried: Mapping[str, Tried]) -> list[str]:
    """A sentence for each reason why a checkpoint does not hold rows that are unfinished still."""
    reasons: dict[str, list[str]] = {}
    for one in restarted:
        row = tried.get(one.rollout_id)
        if row is not None and (row.replied is None or row.replied < one.attempt):
            reasons.setdefault(one.reason, []).append(one.capture_key)
    return [
        f"{len(keys)} rows were under way at the checkpoint and are not in it, they start from their input "
        f"({', '.join(keys[:_NAMED])}{' and others' if len(keys) > _NAMED else ''}): {reason}"
        for reason, keys in reasons.items()
    ]


def _or_none(attempt: int | None) -> int:
    """Below every attempt where there is none."""
    return -1 if attempt is None else attempt
