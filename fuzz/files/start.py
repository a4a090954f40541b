"""What is asked of a whole start, and of the commands that read a run: whatever several files have become."""

import contextlib
import os
from pathlib import Path

from fuzz.files import oracle
from fuzz.files.directory import judge_log, judge_rung
from fuzz.files.left import CHECKPOINTS, Left, config_of
from fuzz.files.rows import judge_mended, key_of
from fuzz.invariants import holds
from fuzz.starting import Begun, begin
from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.ladder import find_checkpoint
from triocollect.errors import DriftError, InputError, TriocollectError, UsageError
from triocollect.protocol.ids import RowKey
from triocollect.reading.examining import verify_run
from triocollect.reading.inspection import fault_of_latest, inspect_all
from triocollect.reading.places import places
from triocollect.reading.rollout import look_for
from triocollect.reading.run_status import run_status_of
from triocollect.reading.sweeping import sweep
from triocollect.report.aggregate import aggregate_outputs

WHOSE = (f"{CHECKPOINTS}/collector.lock", "out_run.json")  # say that the directory is of this output
GROWING = ("out.jsonl", "out_failures.jsonl")


def check_start(folder: Path, left: Left) -> str:
    """A start goes on from whatever is there, or refuses in words; the next one does the same."""
    before = _all_bytes(folder)
    try:
        first = _start(folder, left, before, accept=False)
    except DriftError as error:
        holds("words", "--accept-drift" in str(error), f"a refusal without a way on: {error}")
        holds(15, _rows_differ(left, before), f"only a file of ours is damaged, and it is refused: {error}")
        holds(15, _all_bytes(folder) == before, "a refusal changed something")
        first = _start(folder, left, before, accept=True)
        again = _start(folder, left, _all_bytes(folder), accept=True)
    except InputError:
        holds(15, before["in.jsonl"] != left.files["in.jsonl"], "the input is whole, and refused")
        return "input refused"
    else:
        again = _start(folder, left, _all_bytes(folder), accept=False)
    if any(before[name] != left.files[name] for name in WHOSE):
        first, again = first and first[:2], again and again[:2]
    holds(15, again == first, f"a second start finds something else: {first} and then {again}")
    return "started"


def _rows_differ(left: Left, before: dict[str, bytes]) -> bool:
    """Whether more is wrong than one file: the input, what the run file says, or both that tell of rows."""
    run_file = before.get("out_run.json", b"")
    told = ("out_run.json", "out_materialized_inputs.jsonl")
    harmed = [name for name in told if before.get(name) != left.files[name]]
    says_else = told[0] in harmed and isinstance(oracle.read(run_file).value, dict)
    return before["in.jsonl"] != left.files["in.jsonl"] or says_else or len(harmed) == len(told)


def _start(folder: Path, left: Left, before: dict[str, bytes], *, accept: bool) -> object:
    run = begin(config_of(folder, accept=accept))
    try:
        return None if run.outset is None else _judge(folder, left, before, run)
    finally:
        run.close()


def _judge(folder: Path, left: Left, before: dict[str, bytes], run: Begun) -> object:
    root, told = folder / CHECKPOINTS, "\n".join(run.told)
    torn, kept = folder / "out_torn.jsonl", before.get("out_torn.jsonl", b"")
    for name in GROWING:
        data, after = before.get(name, b""), (folder / name).read_bytes()
        if len(after) < len(data):  # cut: the tails are kept in the order of the files
            kept += oracle.split(data)[1] + b"\n"
        heard = str(folder / name) in told
        judge_mended(folder / name, data, told=heard)
    holds(15, (_bytes(torn) or b"") == kept, f"{torn.name} does not keep what was cut off")
    judge_output_and_rows(folder, run)
    holds(3, _bytes(root / "LATEST") == before.get(f"{CHECKPOINTS}/LATEST"), "a start moved LATEST")
    if run.outset.resumed and run.outset.owns_checkpoints:
        _judge_ladder(root, left, before, run)
    _judge_attempts(before, run)
    for name, data in before.items():
        if "/ckpt-" in name:
            holds(10, _bytes(folder / name) == data, f"a start changed {name}")
    continued = (
        () if run.inherited.rung.checkpoint is None else run.inherited.rung.checkpoint.collection.continued
    )
    return sorted(run.outset.survey.done), run.outset.survey.to_send, continued


def judge_output_and_rows(folder: Path, run: Begun) -> None:
    """Every row is finished, failed for good, or left; none twice, none missing."""
    survey, data = run.outset.survey, (folder / "out.jsonl").read_bytes()
    found, done = oracle.results(data), set(survey.done)
    for key in found.done:
        holds(1, key in done and not survey.is_left(RowKey(*key)), f"{key_of(key)} would be played again")
    holds(15, done <= found.may, "a row counts as finished that no whole line says")
    rows = list(run.outset.read_rows())
    left = [row for row in rows if survey.is_left(row.key)]
    accounted = survey.done_expected + survey.terminal + survey.exhausted + len(left)
    holds(15, accounted == len(rows) == survey.expected, f"{accounted} of {len(rows)} rows are accounted for")
    holds(15, survey.to_send == len(left), f"{survey.to_send} rows are to be sent, and {len(left)} are left")


def _judge_ladder(root: Path, left: Left, before: dict[str, bytes], run: Begun) -> None:
    """The ladder of this input and output; what is of others may be passed over, and only that."""
    others = [one for one in run.inherited.rung.skipped if "another" in one.why]
    whose_differ = any(before.get(name) != left.files.get(name) for name in ("in.jsonl", *WHOSE))
    for one in others:
        said = f"{CHECKPOINTS}/{one.name}/collection.json"
        holds(10, whose_differ or before.get(said) != left.files.get(said), f"{one.name} is ours: {one.why}")
    if not others:
        judge_rung(root, run.inherited.rung, left)
    elif run.inherited.rung.checkpoint is not None:
        wrong = oracle.fault_of_chain(run.inherited.rung.checkpoint.folder, None)
        holds(3, wrong is None, f"something damaged was accepted: {wrong}")


def _judge_attempts(before: dict[str, bytes], run: Begun) -> None:
    """What each row that is left goes on as is above everything that a whole line names."""
    log = oracle.log(before.get(f"{CHECKPOINTS}/{DISPATCHED}", b""))
    judge_log(run.inherited.sent, log)
    results = oracle.results(before.get("out.jsonl", b""))
    failures = oracle.failures(before.get("out_failures.jsonl", b""))
    kept = (data for name, data in before.items() if name.endswith("collection.json"))
    collections = filter(None, map(oracle.as_collection, kept))
    named = [one for found in collections for one in (*found.continued, *found.restarted)]
    for row in run.outset.survey.left(run.outset.read_rows()):
        key = (row.key.task, row.key.rollout)
        known = [results.used.get(key, -1), failures.used.get(key, -1), log.used.get(row.rollout_id, -1)]
        known += [one.attempt for one in named if one.rollout_id == row.rollout_id]
        highest = run.inherited.history.tried.get(row.rollout_id)
        goes_on = max(run.inherited.history.start, 0 if highest is None else highest.highest + 1)
        holds(2, goes_on > max(known), f"{row.rollout_id} goes on as {goes_on}, and {max(known)} was used")
    header, written = log.header, run.log.header
    if header is not None:
        holds(2, written.epoch > header.epoch, f"epoch {written.epoch} after {header.epoch}")
        holds(3, written.sequence > header.sequence, f"number {written.sequence} after {header.sequence}")
    numbers = [int(name.split("/")[1][5:]) for name in before if "/ckpt-" in name]
    holds(3, written.sequence > max(numbers, default=0), f"number {written.sequence} is there already")
    again = oracle.log((run.directory.path / DISPATCHED).read_bytes())
    holds(2, again.header is not None and not again.damaged, "the new log is damaged")


def check_commands(folder: Path, left: Left) -> str:
    """Status, inspect, verify, aggregate, gc: each tells or refuses in words, and reading changes nothing."""
    before, refused = _all_bytes(folder), False
    for ask in (
        lambda: run_status_of(places(folder)).as_json(),
        lambda: verify_run(places(folder), folder, None).as_json(),
        lambda: aggregate_outputs([folder / "out.jsonl"]).as_json(),
        lambda: inspect_all(folder / CHECKPOINTS),
        lambda: fault_of_latest(folder / CHECKPOINTS),
        lambda: [look_for("0-0", place) for place in places(folder)],
        lambda: sweep(places(folder), dry_run=True).as_json(),
    ):
        try:
            ask()
        except UsageError:
            refused = True  # there is nothing of a run that it could tell of
        except TriocollectError as error:
            refused = True
            holds("words", "/" in str(error), f"a refusal that names no file: {error}")
    holds(15, _all_bytes(folder) == before, "a command that only reads changed something")
    rung = find_checkpoint(folder / CHECKPOINTS)
    with contextlib.suppress(TriocollectError):
        sweep(places(folder), dry_run=False)
    after = find_checkpoint(folder / CHECKPOINTS)
    names = [None if one.checkpoint is None else one.checkpoint.folder for one in (rung, after)]
    holds(4, names[0] == names[1], f"gc took away what a start goes on from: {names[0]}, and then {names[1]}")
    return "some refused" if refused else "all told"


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _all_bytes(folder: Path) -> dict[str, bytes]:
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found
