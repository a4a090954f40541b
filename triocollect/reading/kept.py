"""Whether the checkpoints of a directory are what a run promises, from their files alone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from triocollect.checkpoint.directory import read_outcomes
from triocollect.checkpoint.names import LATEST, folder_name
from triocollect.checkpoint.rubbish import rubbish_in
from triocollect.checkpoint.whole import Whole
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import CheckpointOutcome, Latest
from triocollect.protocol.values import NOT_JSON
from triocollect.reading.inspection import Part, parts_of
from triocollect.records.lines import Lines
from triocollect.report.verify import NAMED, Fact

_NUMBER: Final = re.compile(r"c-([0-9]+)-")


class _Episode(msgspec.Struct, frozen=True):
    rollout_id: str
    attempt: int


_decode: Final = msgspec.json.Decoder(_Episode).decode


def facts_of_kept(
    root: Path, latest: Latest | None, whole: Sequence[Whole], *, at_work: bool
) -> Iterator[Fact]:
    """Of whole checkpoints and of LATEST. `at_work`: what lies about may be somebody's just now."""
    outcomes, unread = list[CheckpointOutcome](), list[str]()
    try:
        outcomes = read_outcomes(root)[0]
    except StorageError as error:
        unread.append(str(error))
    published = [number for one in outcomes if (number := _published(one)) is not None]
    yield _never_back(root, latest, max(published, default=0), tuple(unread))
    yield Fact(
        name="scope",
        says="every row that a checkpoint continues is in its environment's records, and the others agree",
        faults=tuple(fault for one in whole for fault in _scope_faults(one))[:NAMED],
    )
    yield Fact(
        name="committed_once",
        says="every participant committed once: one manifest, one file of records",
        faults=tuple(fault for one in whole for fault in _extra(one))[:NAMED],
    )
    known = {one.folder.name for one in whole}  # every byte of them was read for that
    says = "nothing lies there that no start needs"
    found = rubbish_in(root, lambda folder: folder.name in known)
    # A stop publishes and leaves old folders to the next start: the third newest is no sign of a death.
    stopped = bool(outcomes) and outcomes[-1].published and outcomes[-1].stopped is True
    left = {folder_name(number) for number in published[-3:-2] if stopped}
    names = [one.name for one in (*found.folders, *found.rests) if one.name not in left]
    if left_by_stop := [one.name for one in found.folders if one.name in left]:
        says += (
            f", but {left_by_stop[0]}: a stop leaves the third newest to the next run, or to triocollect gc"
        )
    why = f"{root}: {', '.join(names[:NAMED])}: left by a death or not pruned; triocollect gc removes it"
    yield Fact(name="pruned", says=says, open=(why,) if names and not at_work else ())


def _published(outcome: CheckpointOutcome) -> int | None:
    number = _NUMBER.match(outcome.checkpoint_id) if outcome.published else None
    return None if number is None else int(number.group(1))


def _never_back(root: Path, latest: Latest | None, highest: int, unread: tuple[str, ...]) -> Fact:
    says = "LATEST never went back"
    if unread:
        return Fact(name="latest_forward", says=says, open=unread)
    if latest is None:
        why = f"{root / LATEST} is not there or damaged; a run that starts afresh removes it"
        return Fact(name="latest_forward", says=says, open=(why,) if highest else ())
    back = f"{root / LATEST} names {folder_name(latest.sequence)}, {folder_name(highest)} was published"
    return Fact(name="latest_forward", says=says, faults=(back,) if highest > latest.sequence else ())


def _scope_faults(whole: Whole) -> Iterator[str]:
    """What a checkpoint continues and its records do not say so."""
    name, exported = whole.folder.name, set[EpisodeId]()
    continued = {one.rollout_id: one.attempt for one in whole.collection.continued}
    for part in parts_of(whole.folder, whole.collection.participants):
        for episode in _episodes(whole.folder, part):
            if episode is None:
                yield f"{name}: {part.kind} {part.instance} has a record that names no episode"
                continue
            if part.kind == "environment":
                exported.add(EpisodeId(episode.rollout_id, episode.attempt))
            elif continued.get(episode.rollout_id, episode.attempt) != episode.attempt:
                yield (
                    f"{name}: {part.kind} {part.instance} has {episode.rollout_id} at attempt "
                    f"{episode.attempt}, not {continued[episode.rollout_id]}"
                )
    for one in whole.collection.continued:
        if EpisodeId(one.rollout_id, one.attempt) not in exported:
            yield f"{name}: continues {one.capture_key}, of which no environment has a record"


def _episodes(folder: Path, part: Part) -> Iterator[_Episode | None]:
    assert part.records is not None
    for line in Lines(folder / part.records):
        try:
            yield None if line.data is None else _decode(line.data)
        except NOT_JSON:
            yield None


def _extra(whole: Whole) -> Iterator[str]:
    for part in parts_of(whole.folder, whole.collection.participants):
        assert part.records is not None
        records = whole.folder / part.records
        for path in sorted(records.parent.glob("records-*.jsonl")):
            if path != records:
                yield f"{whole.folder.name}: {path.relative_to(whole.folder)} beside the one that counts"
