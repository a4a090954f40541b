"""Everything that can be verified of a run: found, read, and put as questions with their answers."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from triocollect.checkpoint.directory import read_outcomes
from triocollect.checkpoint.ladder import read_latest
from triocollect.checkpoint.names import COLLECTION, checkpoint_folders, folder_name
from triocollect.checkpoint.whole import Whole, read_whole
from triocollect.collector.earlier import read_run_file
from triocollect.errors import DamageError, StorageError, UsageError
from triocollect.protocol.manifests import CheckpointOutcome, Latest
from triocollect.reading.attempts import fact_of_failures, facts_of_log
from triocollect.reading.collector import collector_of
from triocollect.reading.cuts import cuts_of
from triocollect.reading.kept import facts_of_kept
from triocollect.reading.places import Place, outputs_of
from triocollect.reading.restart import restart_of
from triocollect.report.verify import Checkpoint, Fact, Verified
from triocollect.report.verify import verify as look
from triocollect.rows.names import run_path

EFFECTS: Final = "effects"
_TRIES: Final = 3


def verify_run(found: Sequence[Place], folder: Path, effects: Path | None = None) -> Verified:
    """Judge what was found; effects lie in `folder` where they are not named.

    While a collector is at work files come and go: what looks wrong then is looked at again. Raises
    UsageError, DamageError, StorageError.
    """
    outputs = list(dict.fromkeys(place.output for place in found if place.output is not None))
    roots = list(dict.fromkeys(place.directory for place in found if place.directory is not None))
    if effects is None and (folder / EFFECTS).is_dir() and len(outputs) == 1:
        effects = folder / EFFECTS
    if effects is not None and len(outputs) != 1:
        raise UsageError(f"--effects {effects}: name the one output that they belong to")
    for _ in range(_TRIES - 1):
        verified = _verify(found, outputs, roots, effects)
        if verified.holds or not any(map(_at_work, roots)):
            return verified
    return _verify(found, outputs, roots, effects)


def _verify(
    found: Sequence[Place], outputs: Sequence[Path], roots: Sequence[Path], effects: Path | None
) -> Verified:
    more = [_about(output, outputs, fact_of_failures(output)) for output in outputs]
    examined = [
        _examine(root, [one.output for one in found if one.directory == root and one.output])
        for root in roots
    ]
    for root, (_, latest, whole) in zip(roots, examined, strict=True):
        facts = _facts(root, latest, whole, [one.output for one in found if one.directory == root])
        more += [_about(root, roots, fact) for fact in facts]
    return look(outputs, [one for one, _, _ in examined], effects, more)


def _about(one: Path, of: Sequence[Path], fact: Fact) -> Fact:
    """The same, saying what it is about where there are several."""
    return msgspec.structs.replace(fact, says=f"{one}: {fact.says}") if len(of) > 1 else fact


def _facts(
    root: Path, latest: Latest | None, whole: Sequence[Whole], outputs: Sequence[Path | None]
) -> Iterator[Fact]:
    yield from facts_of_kept(root, latest, whole, at_work=_at_work(root))
    shared = len(outputs) > 1 or len(outputs_of(root)) > 1
    yield from facts_of_log(outputs[0] if outputs else None, root, shared=shared)


def examine(root: Path) -> Checkpoint:
    """What LATEST leads to, every byte of it and of what else is kept. Raises StorageError."""
    return _examine(root)[0]


def _examine(root: Path, collected: Sequence[Path] = ()) -> tuple[Checkpoint, Latest | None, list[Whole]]:
    others, faults = checkpoint_folders(root), list[str]()
    latest, whole, first = None, list[Whole](), None
    try:
        latest = read_latest(root)
        if latest is not None:
            others.pop(latest.sequence, None)
            first = read_whole(root / folder_name(latest.sequence), named=latest)
            whole.append(first)
            if first.damaged_digest:
                faults.append(f"{root}: digits of the sha256 in LATEST are damaged; what it names is whole")
    except (DamageError, StorageError) as damage:
        faults.append(f"{root}: {damage}")
    also, passed_over = list[str](), list[str]()
    for number, folder in others.items():
        try:
            one = read_whole(folder)
        except DamageError as damage:
            kept = latest is not None and number < latest.sequence and (folder / COLLECTION).exists()
            (faults if kept else passed_over).append(f"{root}: {damage}" if kept else str(damage))
        else:
            also.append(folder.name)
            whole.append(one)
    bare = Checkpoint(
        directory=str(root),
        also=tuple(also),
        passed_over=tuple(passed_over),
        faults=tuple(faults),
        goes_on_from=_instead(root, collected) if first is None else None,
    )
    return bare if first is None else _with(bare, first, root, collected), latest, whole


def _instead(root: Path, collected: Sequence[Path]) -> str | None:
    """What a start goes on from where LATEST's own cannot be used, if it is one output's."""
    return restart_of(collected[0], root, owns=True).folder if len(collected) == 1 else None


def _is_of_another(whole: Whole, collected: Sequence[Path]) -> bool:
    """Whether it holds rows of an output that was not asked about."""
    run_files = [read_run_file(run_path(output))[0] for output in collected]
    runs = {run_file.run for run_file in run_files if run_file is not None}
    return bool(runs) and whole.collection.output is not UNSET and whole.collection.output not in runs


def _unfinished(whole: Whole, root: Path, collected: Sequence[Path]) -> int | None:
    """How many of its rows the output that it is of would continue; None where that cannot be told."""
    for output in collected:
        run_file, _ = read_run_file(run_path(output))
        if run_file is not None and whole.collection.output in {UNSET, run_file.run}:
            restart = restart_of(output, root, owns=True)
            same = restart.checkpoint_id == whole.collection.checkpoint_id
            return len(restart.continues) if restart.known and same else None
    return None


def _with(bare: Checkpoint, whole: Whole, root: Path, collected: Sequence[Path]) -> Checkpoint:
    outcomes = list[CheckpointOutcome]()
    with contextlib.suppress(StorageError):  # a figure less
        outcomes, _ = read_outcomes(root)
    seconds = {outcome.checkpoint_id: outcome.work_s for outcome in outcomes if outcome.published}
    return msgspec.structs.replace(
        bare,
        checkpoint_id=whole.collection.checkpoint_id,
        continued=tuple(episode.rollout_id for episode in whole.collection.continued),
        unfinished=_unfinished(whole, root, collected),
        of_another=_is_of_another(whole, collected),
        restarted=len(whole.collection.restarted),
        bytes=whole.bytes,
        work_s=seconds.get(whole.collection.checkpoint_id),
        cuts=cuts_of(whole.folder, whole.collection),
    )


def _at_work(root: Path) -> bool:
    with contextlib.suppress(DamageError, StorageError):
        return collector_of(root).at_work == "yes"
    return False
