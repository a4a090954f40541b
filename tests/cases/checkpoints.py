"""From the neutral checkpoint directory of a case to ours, with correct digests where nothing is damaged."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.cases.expect import Checkpoints
from tests.cases.layout import Names
from triocollect.checkpoint.ladder import find_checkpoint
from triocollect.checkpoint.names import sequence_of
from triocollect.protocol.encoding import encode_file
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Latest, Manifest, ParticipantRef, Record, RecordsRef
from triocollect.rows.numbers import TaskNumbers

_OURS: Final = {"LATEST", "collector.lock", "dispatched.jsonl", "outcomes.jsonl"}
_PLACE: Final = "participants/environment/env"  # of `env`, the only participant that cases have


def lay_out_checkpoints(
    neutral: Path, ours: Path, names: Names, rows: bytes, pids: Mapping[bytes, int]
) -> None:
    """Write the directory; `rows` is the data set that its checkpoints were taken of.

    Whatever is no checkpoint, and whatever cannot be read, stays as it is, byte for byte, but for the names
    of `pids`.
    """
    ours.mkdir(parents=True)
    of_rows = _digest_of(rows)
    digests = {
        folder.name: _checkpoint(folder, ours / folder.name, names, of_rows)
        for folder in sorted(neutral.glob("ckpt-*"))
    }
    for path in sorted(neutral.rglob("*")):
        relative = path.relative_to(neutral)
        if path.is_dir() or relative.parts[0] in digests or path.name.startswith((".keep", ".placeholder")):
            continue
        (ours / relative).parent.mkdir(exist_ok=True)
        data = path.read_bytes()
        for name, pid in pids.items():
            data = data.replace(name, b"%d" % pid)
        (ours / relative).write_bytes(_latest(data, digests) if relative.name == "LATEST" else data)


def _digest_of(rows: bytes) -> str:
    numbers = TaskNumbers(gym=False)
    for line in rows.splitlines(keepends=True):
        numbers.digest(line)
    return numbers.of_all


def _checkpoint(neutral: Path, ours: Path, names: Names, of_rows: str) -> str:
    """Write one; the digest of its collection, made up where there is none."""
    ours.mkdir()
    sequence = int(neutral.name.removeprefix("ckpt-"))
    said = (neutral / "collection.json").read_bytes() if (neutral / "collection.json").exists() else None
    try:
        collected = json.loads(said or b"")
    except ValueError:
        collected = None
    episodes = [] if collected is None else [_episode(one, names) for one in collected["in_flight"]]
    wrote = neutral / "env"
    ref = _environment(wrote, ours, names, episodes, sequence) if wrote.exists() else _missing(sequence)
    if collected is None:
        if said is not None:
            (ours / "collection.json").write_bytes(said)
        return "0" * 64
    data = encode_file(
        Collection(
            checkpoint_id=_id(sequence),
            sequence=sequence,
            epoch=1,
            run="4f2c",
            created="2026-01-02T03:04:05+00:00",
            input_sha256=of_rows,
            continued=tuple(episodes),
            restarted=(),
            participants=(ref,),
        )
    )
    (ours / "collection.json").write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _environment(
    neutral: Path, ours: Path, names: Names, episodes: list[EpisodeId], sequence: int
) -> ParticipantRef:
    attempts = {one.rollout_id: one.attempt for one in episodes}
    lines = b""
    for line in (neutral / "records.jsonl").read_bytes().splitlines():
        said = json.loads(line)
        rollout_id = _rollout_id(said["id"], 0, names)
        state = msgspec.Raw(json.dumps(said.get("state")).encode())
        record = Record(
            rollout_id=rollout_id, attempt=attempts.get(rollout_id, 0), kind="environment", state=state
        )
        lines += msgspec.json.encode(record) + b"\n"
    place = ours / _PLACE
    place.mkdir(parents=True)
    digest, count = hashlib.sha256(lines).hexdigest(), lines.count(b"\n")
    (place / f"records-{digest}.jsonl").write_bytes(lines)
    if not (neutral / "manifest.json").exists():
        return _missing(sequence)
    assert count == json.loads((neutral / "manifest.json").read_bytes())["records"]
    manifest = encode_file(
        Manifest(
            kind="environment",
            instance="env",
            boot="b0",
            checkpoint_id=_id(sequence),
            records=RecordsRef(f"records-{digest}.jsonl", digest, count),
        )
    )
    (place / "manifest.json").write_bytes(manifest)
    return _ref(hashlib.sha256(manifest).hexdigest(), count)


def _missing(sequence: int) -> ParticipantRef:
    """Of files that were never written."""
    return _ref(hashlib.sha256(b"%d" % sequence).hexdigest(), 1)


def _ref(digest: str, count: int) -> ParticipantRef:
    return ParticipantRef(
        kind="environment",
        instance="env",
        manifest=f"{_PLACE}/manifest.json",
        sha256=digest,
        record_count=count,
    )


def _latest(neutral: bytes, digests: dict[str, str]) -> bytes:
    """One that cannot be read stays so."""
    name = neutral.decode().strip()
    if name not in digests:
        return neutral
    sequence = int(name.removeprefix("ckpt-"))
    return msgspec.json.encode(Latest(_id(sequence), sequence, digests[name])) + b"\n"


def _id(sequence: int) -> str:
    return f"c-{sequence:06}-0a1b2c3d"


def _episode(said: dict[str, object], names: Names) -> EpisodeId:
    return EpisodeId(_rollout_id(str(said["id"]), said["repeat"], names), said["attempt"])


def _rollout_id(letter: str, repeat: object, names: Names) -> str:
    """A row that the data set does not have keeps its name."""
    return f"{names.letters.index(letter)}-{repeat}" if letter in names.letters else letter


def compare_checkpoints(
    place: Path, before: dict[str, bytes], after: dict[str, bytes], expected: Checkpoints
) -> None:
    """What stands in the directory `place`; `before` and `after` are files by their path in it."""
    empty_trash = {path.name for path in place.glob(".trash-*") if not any(path.iterdir())}  # of a number
    names = {path.name for path in place.iterdir()} - empty_trash
    folders = {name for name in names if sequence_of(name) is not None}
    assert folders == {f"ckpt-{int(number):06}" for number in expected.folders.split()}
    assert names - folders - _OURS == set(expected.foreign.split())
    for name, data in before.items():
        if name.partition("/")[0] in folders | set(expected.foreign.split()):
            assert after[name] == data, f"{name} was changed"
    if expected.damaged:
        assert after["LATEST"] == before["LATEST"]
    elif expected.latest is None:
        assert "LATEST" not in after
    else:
        latest = msgspec.json.decode(after["LATEST"], type=Latest)
        assert latest.sequence == expected.latest
        if after["LATEST"] != before.get("LATEST"):
            assert find_checkpoint(place).skipped == (), "what it names is whole"
