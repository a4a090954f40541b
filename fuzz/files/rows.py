"""What is asked of the readers of rows: output, sidecar, input, materialised rows, run file.

Each check gets the folder with one harmed file, and gives the outcome in a word or raises BrokenError.
"""

import gzip
import zlib
from pathlib import Path

from fuzz.files import oracle
from fuzz.files.left import Left
from fuzz.invariants import holds
from triocollect.collector.earlier import read_run_file
from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.durable import AppendFile
from triocollect.errors import ConfigError, DamageError, InputError
from triocollect.records.output import OutputScan, scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.records.tail import mend_tail
from triocollect.rows.materialize import draft_rows, read_rows

BLANK = b" \t\r\n\x0b\x0c"
MARK = 3  # bytes of a byte order mark
COMPARED = 200  # brackets: what may be nested deeper is not looked at value by value
_STAMPED = ("_ng_task_index", "_ng_rollout_index")


def key_of(key: tuple[int, int]) -> str:
    """As people name a row."""
    return f"row {key[0]}-{key[1]}"


def check_mended(path: Path, torn: Path, before: bytes) -> str:
    """What a start does to the end of a file that grows: whole rows keep every byte, nothing is lost."""
    kept = torn.read_bytes() if torn.exists() else b""
    file = AppendFile(path)
    try:
        mended = mend_tail(file, torn)
        holds(15, file.size == path.stat().st_size, f"{path.name}: its size is not what the writer thinks")
    finally:
        file.close()
    outcome = judge_mended(path, before, told=mended is not None)
    if outcome == "tail cut":
        aside = torn.read_bytes() if torn.exists() else b""
        tail = oracle.split(before)[1]
        holds(15, aside == kept + tail + b"\n", f"{torn.name} does not keep what was cut off")
    return outcome


def judge_mended(path: Path, before: bytes, *, told: bool) -> str:
    """`before`: the file's bytes before the start; `told`: the user heard of it."""
    after, tail = path.read_bytes(), oracle.split(before)[1]
    whole = before[: len(before) - len(tail)]
    holds(15, after.startswith(whole), f"{path.name}: a start changed bytes of whole rows")
    holds(15, not tail or after in {whole, before + b"\n"}, f"{path.name}: a start left neither")
    if not tail:
        holds(15, after == before, f"{path.name}: a start changed a file that was whole")
        return "read"
    is_object = oracle.is_object(tail)
    was_kept = after == before + b"\n"
    holds(15, is_object is None or was_kept == is_object, f"{path.name}: a tail was taken for what it is not")
    holds("words", told, f"{path.name}: a tail was mended without a word")
    return "newline added" if was_kept else "tail cut"


def judge_output(scan_of: OutputScan, data: bytes) -> None:
    """Whether a reader found in `data`, whole lines, what the oracle finds there."""
    found, done = oracle.results(data), set(scan_of.done)
    for key in found.done:
        holds(1, key in done, f"{key_of(key)} has a whole result, and would be played again")
    for key in done:
        holds(15, key in found.may, f"{key_of(key)} counts as finished, and no whole line says so")
    for key, attempt in found.used.items():
        known = scan_of.attempts.get(key, 0 if key in done else -1)
        holds(2, known >= attempt or key in done, f"{key_of(key)}: attempt {attempt} is forgotten")
    holds("words", scan_of.damaged.count >= found.damaged, "a damaged line is passed over in silence")


def check_output(folder: Path, left: Left) -> str:
    """The output of an earlier run."""
    path, torn = folder / "out.jsonl", folder / "out_torn.jsonl"
    before = path.read_bytes()
    outcome = check_mended(path, torn, before)
    after = path.read_bytes()
    scan = scan_output(path)
    judge_output(scan, after)
    if outcome == "tail cut":
        torn.unlink()
    return "damage told" if scan.damaged.count and outcome == "read" else outcome


def check_sidecar(folder: Path, left: Left) -> str:
    """The failures of an earlier run: Gym's budget counts its lines, attempts rise above them."""
    path, torn = folder / "out_failures.jsonl", folder / "out_torn.jsonl"
    outcome = check_mended(path, torn, path.read_bytes())
    if outcome == "tail cut":
        torn.unlink()
    scan, found = scan_sidecar(path), oracle.failures(path.read_bytes())
    for key, most in found.most.items():
        tried = scan.tried.get(key)
        lines = 0 if tried is None else tried.lines
        holds(15, found.lines[key] <= lines <= most, f"{key_of(key)}: {lines} failures count")
        if tried is not None and key in found.used:
            holds(2, tried.attempt >= found.used[key], f"{key_of(key)}: an attempt is forgotten")
        if tried is not None and key in found.replied:
            replied = -1 if tried.replied is None else tried.replied
            holds(7, replied >= found.replied[key], f"{key_of(key)} replied, and would be retired")
    holds(15, scan.tried.keys() <= found.most.keys(), "a row counts as failed that no whole line names")
    return "damage told" if scan.damaged.count and outcome == "read" else outcome


def check_input(folder: Path, left: Left) -> str:
    """Either every row of the input is there, in order, or the refusal names the file and the line."""
    path, made = folder / "in.jsonl", folder / "made.jsonl"
    try:
        draft, _ = draft_rows(InputConfig(path=path), RoutingConfig(), made, agent_of_source=None)
    except InputError as error:
        _judge_refusal(path, error, left)
        return "refused"
    except ConfigError as error:
        holds("words", str(path) in str(error), "a refusal names no file")
        return "refused"
    draft.commit()
    data, lines = made.read_bytes(), _unpacked(path)
    made.unlink()
    holds("reading", lines is not None, "a gzip file that Python cannot read is taken")
    rows, tail = oracle.split(data)
    holds("reading", not tail, "the rows are not whole lines")
    sources = [line for line in lines or () if line.strip(BLANK)]
    holds("reading", len(rows) == len(sources), f"{len(sources)} lines, and {len(rows)} rows")
    for source, one in zip(sources, rows, strict=True):
        wanted, got = oracle.read(source), oracle.read(one)
        holds(
            "reading",
            wanted.is_json and isinstance(wanted.value, dict),
            "a line that is no object became a row",
        )
        if wanted.sure and source.count(b"[") + source.count(b"{") < COMPARED:
            differ = _differing(wanted.value, got.value)
            holds("reading", not differ, f"fields of a row are not what the input says: {differ}")
    return "taken"


def _judge_refusal(path: Path, error: InputError, left: Left) -> None:
    holds("words", error.path == str(path), f"a refusal names {error.path}")
    lines = _unpacked(path)
    if lines is None:
        return
    bad = [number for number, line in enumerate(lines, 1) if _is_bad(line)]
    if error.line is None:
        holds("words", "line" in str(error), f"a refusal names no line: {error}")
    else:
        first = min(bad, default=len(lines))
        refused = lines[error.line - 1]
        as_ever = refused in oracle.split(left.files["in.jsonl"])[0] or not refused.strip(BLANK)
        holds("reading", not as_ever, f"line {error.line} is whole, and refused: {error}")
        holds(
            "words",
            error.line <= first,
            f"line {error.line} is refused, and line {first} is the first bad one",
        )
        begin = sum(len(line) + 1 for line in lines[: error.line - 1])
        holds("words", error.offset in {begin, begin + MARK}, f"byte {begin} is called byte {error.offset}")


def _is_bad(line: bytes) -> bool:
    if not line.strip(BLANK):
        return False
    text = oracle.read(line)
    return text.sure and not isinstance(text.value, dict)


def _unpacked(path: Path) -> list[bytes] | None:
    """The physical lines, without a byte order mark at the very start; None for a damaged gzip file."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            return None
    lines, tail = oracle.split(data)
    lines += [tail] if tail else []
    if lines and lines[0].startswith(b"\xef\xbb\xbf"):
        lines[0] = lines[0][MARK:]
    return lines


def _differing(wanted, got) -> list[str]:
    """The fields of a row that did not come through; numbers may be spelled otherwise."""
    wide = {key for key, value in wanted.items() if not _same(value, got.get(key))}
    return sorted(key for key in wide if not key.startswith("_ng_"))


def _same(one, other) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same(value, other.get(key)) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def check_materialised(folder: Path, left: Left) -> str:
    """Its rows come in order up to the first that is damaged, which is named."""
    path = folder / "out_materialized_inputs.jsonl"
    lines, tail = oracle.split(path.read_bytes())
    count = 0
    try:
        for one in read_rows(path):
            holds(
                "reading",
                one.line == (lines[count] if count < len(lines) else None),
                f"row {count} is another",
            )
            count += 1
    except DamageError as error:
        holds("words", f"line {count + 1} " in str(error), f"damage is told of another line: {error}")
        text = oracle.read(lines[count]) if count < len(lines) else None
        fits = text is not None and text.sure and _is_head(text.value)
        holds("reading", not fits, f"a whole row is called damaged: {error}")
        return "damage told"
    holds("reading", count == len(lines) and not tail, "a row was lost, or half a row was taken")
    return "read"


def _is_head(value) -> bool:
    if not isinstance(value, dict):
        return False
    named = value.get("_ng_rollout_id"), value.get("_ng_environment_server", "")
    texts = (named[0] is None or isinstance(named[0], str)) and isinstance(named[1], str)
    return texts and all(type(value.get(name)) is int for name in _STAMPED) and oracle.row(value) is not None


def check_run_file(folder: Path, left: Left) -> str:
    """What it says, or that it is damaged: never an error, for a start must not fail for ever."""
    path = folder / "out_run.json"
    data = path.read_bytes()
    said, fault = read_run_file(path)
    if said is None:
        holds(
            "words",
            fault is not None and str(path) in fault,
            "a damaged run file is told of without its name",
        )
        return "damage told"
    whole = oracle.read(data)
    holds("reading", whole.is_json or not whole.sure, "a run file that is no JSON is believed")
    same = whole.value is None or (said.run, said.rows) == (whole.value["run"], whole.value["rows"])
    holds("reading", same, "it says something else")
    return "read"
