"""Everything that the files know of one rollout: where it stands in each, and how large it is there."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.names import checkpoint_folders
from triocollect.checkpoint.whole import read_whole
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.manifests import Collection, Dispatched
from triocollect.protocol.values import NOT_JSON
from triocollect.reading.inspection import parts_of
from triocollect.reading.places import Place
from triocollect.reading.restart import Continues, Restarts, restart_of
from triocollect.reading.run_status import owns
from triocollect.records.causes import decode_failure_head
from triocollect.records.findings import Findings
from triocollect.records.heads import decode_output_head, head_of
from triocollect.records.lines import Line, Lines
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import failures_path, materialized_path


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file: `line` counts from 1, `offset` and `bytes` are bytes, without the newline.

    `what`: result, failure with its class, sent, or whose record it is; `step`: the boundary that an
    environment's record stands at; `why`: the first words of a failure.
    """

    file: str
    line: int
    offset: int
    bytes: int
    attempt: int
    what: str
    step: int | msgspec.UnsetType = msgspec.UNSET
    why: str | msgspec.UnsetType = msgspec.UNSET


class InCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says of the rollout: at which attempt, and why it is left out if it is."""

    folder: str
    said: Literal["continued", "left out", "nothing"]
    attempt: int | None = None
    why: str | None = None
    records: tuple[Position, ...] = ()


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout. `sent`: its lines of the dispatch log, which keeps only the highest of earlier runs.

    `restart`: what the same command would do with it; None where it is done or was not under way.
    """

    rollout_id: str
    row: Position | None
    lines: tuple[Position, ...]  # results and failures, in the order of the files
    sent: tuple[Position, ...]
    checkpoints: tuple[InCheckpoint, ...]
    restart: Continues | Restarts | None
    faults: tuple[str, ...] = ()

    def text(self) -> Iterator[str]:
        """For people."""
        yield f"rollout {self.rollout_id}"
        yield f"  row        {'not in the data set' if self.row is None else _place(self.row)}"
        for one in (*self.lines, *self.sent):
            yield f"  {one.what:<9}  attempt {one.attempt}: {_place(one)}"
            if isinstance(one.why, str):
                yield f"             {one.why}"
        for each in self.checkpoints:
            attempt = "" if each.attempt is None else f" at attempt {each.attempt}"
            yield f"  {each.folder}  {each.said}{attempt}{f': {each.why}' if each.why else ''}"
            for one in each.records:
                step = "" if isinstance(one.step, msgspec.UnsetType) else f", at step {one.step}"
                yield f"    {one.what}, attempt {one.attempt}{step}: {_place(one)}"
        if isinstance(self.restart, Continues):
            yield f"  restart    continues attempt {self.restart.attempt} as attempt {self.restart.becomes}"
        elif self.restart is not None:
            yield f"  restart    from its input: {self.restart.why}"
        yield from (f"  damaged    {fault}" for fault in self.faults)


class _Episode(msgspec.Struct, frozen=True):
    rollout_id: str
    attempt: int
    state: msgspec.Raw = msgspec.Raw(b"null")


class _AtStep(msgspec.Struct, frozen=True):
    step: int


_decode_record: Final = msgspec.json.Decoder(_Episode).decode
_decode_step: Final = msgspec.json.Decoder(_AtStep).decode
_decode_sent: Final = msgspec.json.Decoder(Dispatched).decode


def look_for(rollout_id: str, place: Place) -> Rollout | None:
    """Read every file of the run for it; None where none knows it. Raises StorageError."""
    faults = list[str]()
    key, row = None, None
    lines: tuple[Position, ...] = ()
    if place.output is not None:
        key, row = _row_of(rollout_id, place.output, faults)
        lines = () if key is None else (*_results(key, place.output), *_failures(key, place.output))
    root = place.directory
    found = Rollout(
        rollout_id=rollout_id,
        row=row,
        lines=lines,
        sent=() if root is None else tuple(_sent(rollout_id, root / DISPATCHED)),
        checkpoints=() if root is None else tuple(_in_checkpoints(rollout_id, root, faults)),
        restart=_restart(rollout_id, place),
        faults=tuple(faults),
    )
    known = row is not None or found.sent or any(one.said != "nothing" for one in found.checkpoints)
    return found if known else None


def named_here(place: Place) -> str:
    """How the rollouts of an output are named, for who asked for another; "" where nobody can tell."""
    first = last = None
    with contextlib.suppress(DamageError):
        for last in () if place.output is None else read_rows(materialized_path(place.output)):
            first = first or last
    if first is None or last is None:
        return ""
    counted = " (TASK-REPEAT, both counted from 0)" if first.rollout_id == str(first.key) else ""
    return f"; here the first is {first.rollout_id} and the last {last.rollout_id}{counted}"


def _row_of(rollout_id: str, output: Path, faults: list[str]) -> tuple[RowKey | None, Position | None]:
    path = materialized_path(output)
    offset = 0
    try:
        for number, row in enumerate(read_rows(path), start=1):
            if row.rollout_id == rollout_id:
                place = Position(
                    file=str(path), line=number, offset=offset, bytes=len(row.line), attempt=0, what="row"
                )
                return row.key, place
            offset += len(row.line) + 1
    except DamageError as damage:
        faults.append(str(damage))
    return None, None


def _results(key: RowKey, output: Path) -> Iterator[Position]:
    ignored = Findings(output)
    for line in Lines(output):
        head = head_of(line, decode_output_head, ignored)
        if head is not None and head.key == key:
            what = "misplaced" if head.is_failure else "result"
            yield _position(output, line, head.attempt, what)


def _failures(key: RowKey, output: Path) -> Iterator[Position]:
    path = failures_path(output)
    ignored = Findings(path)
    for line in Lines(path):
        head = head_of(line, decode_failure_head, ignored)
        if head is not None and head.key == key:
            place = _position(path, line, head.attempt, f"failure {head.failure_class}".rstrip())
            yield msgspec.structs.replace(place, why=head.cause or msgspec.UNSET)


def _sent(rollout_id: str, path: Path) -> Iterator[Position]:
    try:
        for line in Lines(path):
            try:
                sent = None if line.data is None or line.number == 1 else _decode_sent(line.data)
            except NOT_JSON:
                continue
            if sent is not None and sent.rollout_id == rollout_id:
                yield _position(path, line, sent.attempt, "sent")
    except StorageError:
        return  # `status` tells it


def _in_checkpoints(rollout_id: str, root: Path, faults: list[str]) -> Iterator[InCheckpoint]:
    for folder in checkpoint_folders(root).values():
        try:
            collection = read_whole(folder, hash_records=False).collection
            said = _said(rollout_id, folder.name, collection)
            records = tuple(_records(rollout_id, folder, collection))
        except DamageError as damage:
            faults.append(str(damage))
        except (OSError, StorageError, *NOT_JSON) as error:  # it went while it was looked at
            faults.append(f"{folder.name} cannot be read: {error}")
        else:
            yield msgspec.structs.replace(said, records=records)


def _said(rollout_id: str, folder: str, collection: Collection) -> InCheckpoint:
    for one in collection.continued:
        if one.rollout_id == rollout_id:
            return InCheckpoint(folder=folder, said="continued", attempt=one.attempt)
    for left in collection.restarted:
        if left.rollout_id == rollout_id:
            return InCheckpoint(folder=folder, said="left out", attempt=left.attempt, why=left.reason)
    return InCheckpoint(folder=folder, said="nothing")


def _records(rollout_id: str, folder: Path, collection: Collection) -> Iterator[Position]:
    for part in parts_of(folder, collection.participants):
        assert part.records is not None
        path = folder / part.records
        for line in Lines(path):
            record = None if line.data is None else _decode_record(line.data)
            if record is not None and record.rollout_id == rollout_id:
                place = _position(path, line, record.attempt, f"{part.kind} {part.instance}")
                yield _at_step(place, record.state) if part.kind == "environment" else place


def _at_step(place: Position, state: msgspec.Raw) -> Position:
    try:
        return msgspec.structs.replace(place, step=_decode_step(state).step)
    except NOT_JSON:
        return place  # another environment's, which says it differently


def _restart(rollout_id: str, place: Place) -> Continues | Restarts | None:
    if place.directory is None or place.output is None:
        return None
    restart = restart_of(place.output, place.directory, owns=owns(place))
    under_way: tuple[Continues | Restarts, ...] = (*restart.continues, *restart.restarts)
    return next((one for one in under_way if one.rollout_id == rollout_id), None)


def _position(path: Path, line: Line, attempt: int, what: str) -> Position:
    size = 0 if line.data is None else len(line.data)
    return Position(
        file=str(path), line=line.number, offset=line.offset, bytes=size, attempt=attempt, what=what
    )


def _place(one: Position) -> str:
    return f"{one.file}, line {one.line} (byte {one.offset}), {one.bytes} bytes"
