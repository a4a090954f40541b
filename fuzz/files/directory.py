"""What is asked of the readers of a checkpoint directory: ladder, records, log, lock, and the rest."""

from pathlib import Path

from fuzz.files import oracle
from fuzz.files.left import CHECKPOINTS, Left
from fuzz.invariants import all_hold, holds
from triocollect.checkpoint.directory import (
    DISPATCHED,
    read_lock,
    read_outcomes,
    read_pid,
    run_by_other_files,
)
from triocollect.checkpoint.ladder import Rung, episodes_named, find_checkpoint
from triocollect.checkpoint.sent import Sent, read_dispatched
from triocollect.errors import DamageError, StorageError
from triocollect.participant.records import Shelf
from triocollect.protocol.manifests import Record

_SHOWN = 7  # the highest attempt that other files are said to show


def check_ladder(folder: Path, left: Left) -> str:
    """Nothing damaged is accepted, and no whole checkpoint is lost below what LATEST names."""
    root = folder / CHECKPOINTS
    before = (root / "LATEST").read_bytes() if (root / "LATEST").exists() else None
    rung = find_checkpoint(root)
    judge_rung(root, rung, left)
    after = (root / "LATEST").read_bytes() if (root / "LATEST").exists() else None
    holds(3, before == after, "looking changed LATEST")
    list(episodes_named(root))
    return _word(rung)


def judge_rung(root: Path, rung: Rung, left: Left) -> None:
    """What the ladder came to, against the bytes."""
    latest = oracle.latest(root)
    rungs = sorted((path for path in root.glob("ckpt-*") if oracle.number_of(path.name)), reverse=True)
    if latest is not None:
        rungs = [path for path in rungs if oracle.number_of(path.name) <= latest.sequence]
    if not (root / "LATEST").exists():
        holds(3, rung.is_bottom, "without LATEST there is no checkpoint")
        return
    taken = None if rung.checkpoint is None else rung.checkpoint.folder
    for path in rungs:
        named = latest if latest is not None and latest.sequence == oracle.number_of(path.name) else None
        if path == taken:
            wrong = oracle.fault_of_chain(path, named)
            all_hold((3, 10), wrong is None, f"{path.name} was accepted, damaged: {wrong}")
            return
        whole = _is_untouched(root, path, left) and (named is None or _is_named(path, named))
        holds(10, not whole, f"{path.name} is whole, and was passed over for {taken}")
    holds(3, taken is None, f"{taken} was accepted, which LATEST has never named")


def _is_untouched(root: Path, path: Path, left: Left) -> bool:
    """Whether every file of the checkpoint is what it was."""
    begin = f"{CHECKPOINTS}/{path.name}/"
    ours = {name for name in left.files if name.startswith(begin)}
    there = {f"{CHECKPOINTS}/{one.relative_to(root).as_posix()}" for one in path.rglob("*") if one.is_file()}
    return bool(ours) and ours <= there and all(_is_as_left(root.parent, one, left) for one in ours)


def _is_as_left(folder: Path, name: str, left: Left) -> bool:
    return (folder / name).read_bytes() == left.files[name]


def _is_named(path: Path, latest: oracle.Latest) -> bool:
    return oracle.fault_of_chain(path, latest) is None


def _word(rung: Rung) -> str:
    if rung.is_bottom:
        return "no checkpoint"
    if rung.checkpoint is None:
        return "from the input"
    return "passed over" if rung.skipped else "accepted"


def check_records(folder: Path, left: Left) -> str:
    """A participant installs what its manifest's digest vouches for, and nothing else."""
    root = folder / CHECKPOINTS
    outcome = check_ladder(folder, left)
    for place in sorted(root.glob("ckpt-*/participants/*/*")):
        name = place.relative_to(folder).as_posix()
        directory = place.parents[2].name
        collection = oracle.as_collection(left.files[f"{CHECKPOINTS}/{directory}/collection.json"])
        assert collection is not None, "it was whole before"
        ref = next(one for one in collection.participants if name.endswith(f"/{one.kind}/{one.instance}"))
        shelf = Shelf(root, ref.kind, ref.instance, "b")
        ours = [one for one in left.files if one.startswith(f"{name}/")]
        whole = all(_is_as_left(folder, one, left) for one in ours)
        try:
            records = shelf.read(collection.checkpoint_id, directory, ref.sha256, Record)
        except (DamageError, StorageError):
            holds(10, not whole, f"{name}: whole records are refused")
            outcome = "refused"
        else:
            holds(3, whole, f"{name}: damaged records are installed")
            holds(10, len(records) == ref.record_count, f"{name}: a record is lost")
    return outcome


def check_log(folder: Path, left: Left) -> str:
    """No attempt that a whole line names is the next one; where a line is lost all go above the reserve."""
    path = folder / CHECKPOINTS / DISPATCHED
    sent, found = read_dispatched(path), oracle.log(path.read_bytes())
    judge_log(sent, found)
    return "damage told" if sent.faults else "read"


def judge_log(sent: Sent, found: oracle.Log) -> None:
    """What was read, against the bytes."""
    for rollout_id, attempt in found.used.items():
        holds(2, sent.next_attempt(rollout_id) > attempt, f"{rollout_id}: {attempt} would be sent again")
        known = sent.attempts.get(rollout_id, -1)
        holds(7, known >= attempt, f"{rollout_id}: attempt {attempt} would not be retired")
    for rollout_id, attempt in sent.answered.items():
        known = found.answered.get(rollout_id, -1)
        holds(7, attempt <= known, f"{rollout_id}: attempt {attempt} counts as answered, and no line says so")
    if found.header is None:
        holds(2, not sent.complete, "a log without its header is trusted")
        above = sent.above(_SHOWN).next_attempt("never-named")
        holds(2, above > _SHOWN, "attempts go on below what other files show")
    elif found.damaged:
        reserved = found.header.reserved
        holds(2, sent.next_attempt("never-named") > reserved, f"lines are lost, and {reserved} is not passed")


def check_lock(folder: Path, left: Left) -> str:
    """What it says or that it is damaged; which run's the directory is then, other files tell."""
    root = folder / CHECKPOINTS
    data = (root / "collector.lock").read_bytes()
    try:
        found = read_lock(root)
    except DamageError as error:
        holds("words", "collector.lock" in str(error), f"damage is told without the file's name: {error}")
        run = oracle.log(left.files[f"{CHECKPOINTS}/{DISPATCHED}"]).header.run
        holds(2, run_by_other_files(root) == run, "the run is forgotten although its log names it")
        return "damage told"
    holds("reading", (found is None) == (data == b""), "a lock file says nothing")
    return "read" if found is not None else "empty"


def check_rest(folder: Path, left: Left) -> str:
    """What is only for people: never an error."""
    root = folder / CHECKPOINTS
    pid = read_pid(root)
    holds("reading", pid is None or pid >= 0, f"signals would go to {pid}")
    outcomes, end = read_outcomes(root)
    path = root / "outcomes.jsonl"
    whole = path.read_bytes().count(b"\n") if path.exists() else 0
    holds("reading", len(outcomes) <= whole, "more outcomes than lines")
    again, same = read_outcomes(root, end)
    holds("reading", (again, same) == ([], end), "an outcome is told twice")
    return "read"
