"""Whether the attempts of a run add up over output, sidecar and dispatch log.

Attempts of a rollout only go up, and none comes after its result. The same attempt may be sent again where a
server has said that nothing ran, and a continued one is written down twice: installed, and sent.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.sent import read_dispatched
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.manifests import Dispatched
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings
from triocollect.records.heads import RecordHead, decode_output_head, decode_sidecar_head, head_of
from triocollect.records.lines import Line, Lines
from triocollect.report.verify import NAMED, Fact
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import failures_path, materialized_path, run_path

_decode_sent: Final = msgspec.json.Decoder(Dispatched).decode


def fact_of_failures(output: Path) -> Fact:
    """Every line of a row is of a later attempt than the one before, the result of the last."""
    says = "attempts of a row only go up, and its result is the last"
    if not run_path(output).exists():
        return Fact(
            name="attempts", says=says, open=(f"{output}: another program's, which may count differently",)
        )
    faults, highest = list[str](), dict[RowKey, int]()
    sidecar = failures_path(output)
    for line, head in _heads(sidecar, decode_sidecar_head):
        if head.attempt <= (before := highest.get(head.key, -1)):
            faults.append(
                f"{_place(sidecar, line)}: row {head.key} at attempt {head.attempt}, after {before}"
            )
        highest[head.key] = max(head.attempt, before)
    for line, head in _heads(output, decode_output_head):
        if not head.is_failure and head.attempt <= (before := highest.get(head.key, -1)):
            faults.append(f"{_place(output, line)}: result of attempt {head.attempt}, after {before} failed")
    return Fact(name="attempts", says=says, faults=tuple(faults[:NAMED]))


def facts_of_log(output: Path | None, root: Path, *, shared: bool) -> Iterator[Fact]:
    """What the dispatch log says against it. `shared`: several outputs have used the directory."""
    path = root / DISPATCHED
    says = "no attempt was sent after a higher one of its rollout"
    sent = read_dispatched(path)
    if not path.exists():
        yield Fact(name="sent", says=says, open=(f"{path} is not there",))
        return
    lowered: tuple[str, ...] = ()
    with contextlib.suppress(StorageError):  # which is among the faults of the scan above
        lowered = tuple(_lowered(path))
    yield Fact(name="sent", says=says, faults=lowered[:NAMED], open=sent.faults)
    if output is None:
        return
    says = "no row was sent again after its result"
    if shared:
        yield Fact(name="sent_again", says=says, open=(f"several outputs were collected with {root}",))
        return
    try:
        done = dict(_done(output))
        faults = tuple(_after_result(materialized_path(output), done, sent.attempts))
    except DamageError as damage:
        yield Fact(name="sent_again", says=says, open=(str(damage),))
        return
    yield Fact(name="sent_again", says=says, faults=faults[:NAMED])


def _lowered(path: Path) -> Iterator[str]:
    highest = dict[str, int]()
    for line in Lines(path):
        try:
            sent = None if line.data is None or line.number == 1 else _decode_sent(line.data)
        except NOT_JSON:
            continue  # told by the scan for attempts
        if sent is None:
            continue
        if sent.attempt < (before := highest.get(sent.rollout_id, -1)):
            yield f"{_place(path, line)}: {sent.rollout_id} at attempt {sent.attempt}, after {before}"
        highest[sent.rollout_id] = max(sent.attempt, before)


def _done(output: Path) -> Iterator[tuple[RowKey, int]]:
    for _, head in _heads(output, decode_output_head):
        if not head.is_failure:
            yield head.key, head.attempt


def _after_result(rows: Path, done: Mapping[RowKey, int], sent: Mapping[str, int]) -> Iterator[str]:
    for row in read_rows(rows) if done and sent else ():
        last = sent.get(row.rollout_id, -1)
        if (ended := done.get(row.key)) is not None and last > ended:
            yield f"{row.rollout_id}: its result is of attempt {ended}, and attempt {last} was sent"


def _heads(path: Path, decode: Callable[[bytes], RecordHead]) -> Iterator[tuple[Line, RecordHead]]:
    ignored = Findings(path)
    for line in Lines(path):
        if (head := head_of(line, decode, ignored)) is not None:
            yield line, head


def _place(path: Path, line: Line) -> str:
    return f"{path}, line {line.number} (byte {line.offset})"
