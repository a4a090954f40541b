"""What the servers of a run wrote down themselves, held against its results."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings, KeySet
from triocollect.records.heads import decode_output_head, head_of
from triocollect.records.lines import Lines
from triocollect.report.calls import Conversation, Spent, of_rollouts, read_calls
from triocollect.report.effects import CALLS, Effects
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import materialized_path


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Policy calls and generated tokens. `made` covers everything, the others finished rows.

    `kept`: in a result and not made by its last attempt, thanks to a checkpoint. `again`: made beyond those
    of the result, because they were under way at a cut, or lost.
    """

    made: Spent
    kept: Spent
    again: Spent

    @property
    def from_input(self) -> Spent:
        """What would have been made again if every interrupted row had started from its input."""
        return self.kept.plus(self.again)


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Results of stateful environments: how many there are, and how those with a later attempt came about.

    `effects` are all that made these results, `carried` those of them that were done before the last cut;
    `lost` ones were done and are part of no result. `faults`: results that are no unbroken line.
    """

    results: int
    continued: int
    restarted: int
    effects: int
    carried: int
    lost: int
    calls: Calls | None
    faults: tuple[str, ...]


def read_account(output: Path, folder: Path) -> Account:
    """Judge the results of an output by a folder of effects files.

    Raises UsageError where it is no folder, DamageError and StorageError where something cannot be read.
    """
    effects, spent = Effects(folder), read_calls(folder / CALLS)
    results = list(_results(output))
    lines = {result.episode: effects.line(result.episode, result.effects) for result in results}
    judged = {episode: line for episode, line in lines.items() if line is not None}
    later = [line for episode, line in judged.items() if episode.attempt]
    faults = [
        f"{episode.capture_key}: {line.fault}" for episode, line in judged.items() if line.fault is not None
    ]
    return Account(
        results=len(judged),
        continued=sum(line.went_on for line in later),
        restarted=sum(not line.went_on for line in later),
        effects=sum(line.effects for line in judged.values()),
        carried=sum(line.carried for line in judged.values()),
        lost=sum(line.lost for line in judged.values()),
        calls=None if spent is None else _calls(spent, results),
        faults=(*effects.damaged, *faults),
    )


class _Result(NamedTuple):
    episode: EpisodeId
    effects: int | None  # how many the environment says there were
    spent: Spent


def _results(output: Path) -> Iterator[_Result]:
    """The first result of every row."""
    named, seen, ignored = _names(output), KeySet(), Findings(output)
    for line in Lines(output):
        head = head_of(line, decode_output_head, ignored)
        if head is None or line.data is None or head.is_failure or not seen.add(head.key):
            continue
        told = _Told()
        with contextlib.suppress(*NOT_JSON):
            told = _decode(line.data)
        episode = EpisodeId(named.get(head.key, str(head.key)), head.attempt)
        yield _Result(episode, told.effects, told.response.spent)


def _names(output: Path) -> Mapping[tuple[int, int], str]:
    """Rollout ids that the data gives."""
    path = materialized_path(output)
    rows = read_rows(path) if path.exists() else ()
    return {row.key: row.explicit_id for row in rows if row.explicit_id is not None}


def _calls(spent: Mapping[EpisodeId, Spent], results: list[_Result]) -> Calls:
    total, kept, again = Spent(), Spent(), Spent()
    for one in spent.values():
        total = total.plus(one)
    all_attempts = of_rollouts(spent, [result.episode.rollout_id for result in results])
    for result in results:
        last = spent.get(result.episode, Spent())
        kept = kept.plus(result.spent.minus(last)) if result.episode.attempt else kept
        again = again.plus(all_attempts[result.episode.rollout_id].minus(result.spent))
    return Calls(made=total, kept=kept, again=again)


class _Told(msgspec.Struct, frozen=True):
    effects: int | None = None
    response: Conversation = Conversation()


_decode: Final = msgspec.json.Decoder(_Told).decode
