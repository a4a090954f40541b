"""Where a checkpoint holds each rollout, by the records of its participants, which have to agree."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from attrs import frozen

from fuzz.invariants import said
from fuzz.rules import has_changed
from fuzz.states import State, read_state
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Latest, Manifest, ParticipantRef


class Verdict(msgspec.Struct, frozen=True):
    """What came of a rollout, in the environment's words; a counter has values, a verifier no effects."""

    start_value: int | None = None
    final_value: int | None = None
    effects: int | None = None
    reward: float | None = None


class Cut(msgspec.Struct, frozen=True):
    """What is kept of a call that was under way: so many tokens, or the `whole` answer."""

    key: str
    tokens: int
    parent: str | None = None
    whole: bool = False


@frozen
class Boundary:
    """One rollout's. `state` is None before the seed, of verifiers, and once the session is closed.

    Calls and tokens are those that the agent knows of; once it is judged nobody need know. `cut`: of the call
    that follows them.
    """

    attempt: int
    state: State | None
    verdict: Verdict | None
    calls: int
    tokens: int
    cut: Cut | None = None


@frozen
class Checkpoint:
    """What LATEST names."""

    id: str
    sequence: int
    kept: Mapping[str, Boundary]


class _Session(msgspec.Struct, frozen=True):
    produced: tuple[msgspec.Raw, ...]
    steps: int
    last_call: str | None


class _Item(msgspec.Struct, frozen=True):
    type: str
    call_id: str = ""
    name: str = ""
    output: msgspec.Raw = msgspec.Raw(b"null")


class _Delivered(msgspec.Struct, frozen=True):
    call_id: str
    parent: str | None
    output_tokens: int


class _Ledger(msgspec.Struct, frozen=True):
    rows: tuple[_Delivered, ...]
    cut: Cut | None = None


class _Record(msgspec.Struct, frozen=True):
    rollout_id: str
    attempt: int
    state: msgspec.Raw


class _Episode(msgspec.Struct, frozen=True):
    record: Verdict | None


_STATES = {"agent": _Session, "model": _Ledger, "environment": _Episode}


def read_checkpoint(directory: Path, faults: list[str]) -> Checkpoint | None:
    """What LATEST names, every digest on the way checked; what is wrong is added to `faults`."""
    path = directory / "LATEST"
    if not path.exists():
        return None
    try:
        latest = msgspec.json.decode(path.read_bytes(), type=Latest)
        folder = directory / f"ckpt-{latest.sequence:06d}"
        data = _named((folder / "collection.json"), latest.sha256)
        collection = msgspec.json.decode(data, type=Collection)
        states = _states(folder, collection.participants)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        faults.append(said(3, f"LATEST leads to something damaged: {error}"))
        return None
    if (collection.checkpoint_id, collection.sequence) != (latest.checkpoint_id, latest.sequence):
        faults.append(said(3, f"LATEST means {latest.checkpoint_id} and leads to {collection.checkpoint_id}"))
    kept = {episode.rollout_id: _boundary(episode, states, faults) for episode in collection.continued}
    return Checkpoint(collection.checkpoint_id, collection.sequence, kept)


def _named(path: Path, sha256: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{path} has other bytes than its digest says")
    return data


def _states(folder: Path, participants: tuple[ParticipantRef, ...]) -> dict:
    """By kind and episode."""
    states = {kind: {} for kind in ("resources", *_STATES)}
    for one in participants:
        path = folder / one.manifest
        manifest = msgspec.json.decode(_named(path, one.sha256), type=Manifest)
        lines = _named(path.parent / manifest.records.path, manifest.records.sha256).splitlines()
        if not len(lines) == manifest.records.record_count == one.record_count:
            raise ValueError(f"{path} counts {one.record_count} records and there are {len(lines)}")
        for line in lines:
            record = msgspec.json.decode(line, type=_Record)
            if one.kind == "resources":
                state = read_state(record.state)
            else:
                state = msgspec.json.decode(record.state, type=_STATES[one.kind])
            states[one.kind][EpisodeId(record.rollout_id, record.attempt)] = state
    return states


def _boundary(episode: EpisodeId, states: dict, faults: list[str]) -> Boundary:
    """The records of an episode have to be of one instant."""
    key = episode.capture_key
    if (played := states["environment"].get(episode)) is None:
        faults.append(said(6, f"{key} is to be continued, and no environment exported it"))
    verdict = None if played is None else played.record
    state, session = states["resources"].get(episode), states["agent"].get(episode)
    account = states["model"].get(episode, _Ledger(()))
    known = account.rows
    if session is not None:
        known = _line(known, session.last_call)
        if len(known) != session.steps:
            faults.append(said(13, f"{key}: the agent knows {session.steps} calls, the model {len(known)}"))
        changes = _changes(session.produced)
        if state is not None and changes != state.effects:
            faults.append(
                said(13, f"{key}: the agent knows {changes} changes, the environment {state.effects}")
            )
    tokens = sum(row.output_tokens for row in known)
    cut, last = account.cut, known[0].call_id if known else None
    follows = cut is not None and cut.parent == last
    return Boundary(episode.attempt, state, verdict, len(known), tokens, cut if follows else None)


def _line(rows: tuple[_Delivered, ...], last: str | None) -> tuple[_Delivered, ...]:
    """The calls that led to the last one, it included."""
    by_id, line = {row.call_id: row for row in rows}, []
    while last is not None and last in by_id:
        line.append(by_id[last])
        last = by_id[last].parent
    return tuple(line)


def _changes(produced: tuple[msgspec.Raw, ...]) -> int:
    """How many tool calls that change something have got their output."""
    items = [msgspec.json.decode(item, type=_Item) for item in produced]
    names = {item.call_id: item.name for item in items if item.type == "function_call"}
    outputs = [item for item in items if item.type == "function_call_output"]
    answers = [(names[item.call_id], msgspec.json.decode(item.output, type=str)) for item in outputs]
    return sum(has_changed(tool, answer.encode()) for tool, answer in answers)
