"""Which files are outputs, and their result records, read one at a time from any state a crash may leave."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from triocollect.durable import read_at_most
from triocollect.errors import DamageError, UsageError
from triocollect.protocol.files import RunFile
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import NOT_JSON, Json, JsonObject
from triocollect.records.findings import Finding, Findings, KeySet
from triocollect.records.heads import RecordHead, decode_output_head, head_of
from triocollect.records.lines import Line, Lines
from triocollect.records.tail import is_whole_object, read_tail
from triocollect.rows.names import aggregate_path, failures_path, materialized_path, run_path, torn_path

_COMPANIONS: Final = tuple(
    beside(Path("x.jsonl")).name.removeprefix("x")
    for beside in (failures_path, materialized_path, torn_path, run_path, aggregate_path)
)
_METRICS: Final = _COMPANIONS[-1]
MOST_RUN_BYTES: Final = 1 << 20
_NUMBER_OR_BOOL: Final = frozenset(b"-0123456789tf")
_KEPT: Final = frozenset({"agent_ref", "_ng_environment_server"})

_decode_head: Final = msgspec.json.Decoder(RecordHead).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def find_outputs(paths: Sequence[Path]) -> list[Path]:
    """The outputs that these files and folders stand for, each once, in the order given.

    A folder stands for `<stem>.jsonl` of every run that left a companion file in it, even one that has
    written no result yet. A companion named itself is skipped, so that a shell pattern may match it. Raises
    UsageError for a path that is not there, and where nothing is an output.
    """
    if not paths:
        raise UsageError("name an output, or a folder of outputs")
    found: dict[Path, None] = {}
    for path in paths:
        try:
            found.update(dict.fromkeys(_outputs_at(path)))
        except OSError as fault:
            raise UsageError(f"{path}: {fault.strerror or fault}") from None
    if not found:
        raise UsageError(f"no output of a run in {', '.join(map(str, paths))}")
    return list(found)


def _outputs_at(path: Path) -> list[Path]:
    if path.is_dir():
        return _outputs_in(path)
    if path.name.endswith(_COMPANIONS):
        return []
    if path.exists() or any(beside(path).exists() for beside in (materialized_path, run_path)):
        return [path]
    raise UsageError(f"{path}: no such file or folder")


def _outputs_in(folder: Path) -> list[Path]:
    companions = [
        (path.with_name(f"{path.name.removesuffix(ending)}.jsonl"), ending)
        for path in folder.iterdir()
        for ending in _COMPANIONS
        if path.name.endswith(ending)
    ]
    # Metrics may also be those of several outputs, written by `aggregate` under another name.
    return sorted(output for output, ending in companions if ending != _METRICS or output.exists())


def expected_rows(output: Path) -> int | None:
    """How many rows the run of this output has; None where nothing beside it tells.

    `<stem>_run.json` says so; without it (an output of Gym's) the lines of the materialised file are counted.
    """
    with contextlib.suppress(OSError, *NOT_JSON):
        return msgspec.json.decode(read_at_most(run_path(output), MOST_RUN_BYTES), type=RunFile).rows
    materialized = materialized_path(output)
    if not materialized.exists():
        return None
    return sum(1 for line in Lines(materialized) if line.data is not None and line.data.tobytes().strip())


def expected_keys(output: Path) -> KeySet | None:
    """The rows of the data set, by the materialised file; None without one."""
    materialized = materialized_path(output)
    if not materialized.exists():
        return None
    keys, damaged = KeySet(), Findings(materialized)
    for line in Lines(materialized):
        if (head := head_of(line, _decode_head, damaged)) is not None:
            keys.add(head.key)
    return keys


class Result(msgspec.Struct, frozen=True):
    """One result line: its row, what metrics need of it, and a fingerprint of its bytes."""

    key: RowKey
    record: JsonObject
    fingerprint: int


class Output:
    """One pass over an output's result lines, and what was found on the way.

    The first line of a row counts, later ones are `duplicates`; lines that are no records are `damaged`;
    failures among the results are `failures`. A torn tail counts if only its newline is missing, as a resumed
    run would take it; else it is `torn`.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.records = 0
        self.damaged: Final = Findings(path)
        self.duplicates: Final = Findings(path)
        self.failures: Final = Findings(path)
        self.torn: Finding | None = None

    def __iter__(self) -> Iterator[Result]:
        """Raises StorageError where the file cannot be read."""
        seen = KeySet()
        for line in self._lines():
            head = head_of(line, decode_output_head, self.damaged)
            if head is None or line.data is None:
                continue
            if head.is_failure:
                self.failures.add(line, f"row {head.key} holds a failure, not a result")
            elif not seen.add(head.key):
                self.duplicates.add(line, f"row {head.key} has a result already: the first one counts")
            else:
                self.records += 1
                yield Result(head.key, _slim(head, line.data), hash(line.data.tobytes()))

    def findings(self) -> JsonObject:
        """What was read, for programs; known once all is read."""
        return {
            "path": str(self.path),
            "records": self.records,
            "damaged": self.damaged.count,
            "duplicates": self.duplicates.count,
            "failures": self.failures.count,
            "torn": None if self.torn is None else str(self.torn),
        }

    def _lines(self) -> Iterator[Line]:
        lines = Lines(self.path)
        number = 0
        for line in lines:
            number = line.number
            yield line
        if (tail := self._tail()) and is_whole_object(tail):
            yield Line(number + 1, lines.whole, memoryview(tail))
        elif tail:
            self.torn = Finding(str(self.path), number + 1, lines.whole, f"torn off after {len(tail)} bytes")

    def _tail(self) -> bytes:
        try:
            return read_tail(self.path)
        except DamageError:
            return b"\0"


def _slim(head: RecordHead, line: memoryview) -> JsonObject:
    """What metrics need: numbers and booleans, who ran it, and `response.usage`."""
    record: JsonObject = {}
    for name, value in _decode_fields(line).items():
        if name == "response":
            record["response"] = _usage_of(value)
        elif name in _KEPT or memoryview(value)[0] in _NUMBER_OR_BOOL:
            record[name] = _value_of(value)
    record["_ng_task_index"], record["_ng_rollout_index"] = head.key
    return record


def _usage_of(response: Raw) -> Json:
    if memoryview(response)[0] != ord("{"):
        return None
    usage = _decode_fields(response).get("usage")
    return None if usage is None else {"usage": _value_of(usage)}


def _value_of(value: Raw) -> Json:
    """None for a number that Python refuses to hold."""
    decoded: Json = None
    with contextlib.suppress(ValueError, *NOT_JSON):
        decoded = msgspec.json.decode(value)
    return decoded
