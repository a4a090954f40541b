"""What requests and files of a simulated run say, read for the oracle."""

import hashlib
import json
from pathlib import Path

from fuzz.invariants import holds
from fuzz.simulation.request import Request

UNANSWERED = "agent_request_failed"  # the class of a failure that nobody answered with


def bytes_in(path: Path) -> bytes:
    """All of a file, none where there is no file. Not by `os`, whose errors are the product's alone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def lines_in(path: Path):
    """The whole lines of a file, if there is one."""
    return json_lines(bytes_in(path))


def records_in(place: Path):
    """The records of one participant in a checkpoint, by episode."""
    manifest = json.loads(bytes_in(place / "manifest.json"))
    lines = json_lines(bytes_in(place / manifest["records"]["path"]))
    return {(one["rollout_id"], one["attempt"]): one["state"] for one in lines}


def latest_collection(checkpoints: Path):
    """The folder that LATEST names, and what is collected there."""
    latest = json.loads(bytes_in(checkpoints / "LATEST"))
    folder = checkpoints / f"ckpt-{latest['sequence']:06}"
    return folder, json.loads(bytes_in(folder / "collection.json"))


def sequence_of_whole(checkpoints: Path):
    """The number that LATEST names. Raises BrokenError where anything of that is another than was said."""
    latest = json.loads(bytes_in(checkpoints / "LATEST"))
    folder, collection = latest_collection(checkpoints)
    written = bytes_in(folder / "collection.json")
    holds(3, hashlib.sha256(written).hexdigest() == latest["sha256"], "another collection.json")
    for ref in collection["participants"]:
        manifest = bytes_in(folder / ref["manifest"])
        holds(3, hashlib.sha256(manifest).hexdigest() == ref["sha256"], f"another manifest: {ref}")
        records = json.loads(manifest)["records"]
        data = bytes_in((folder / ref["manifest"]).parent / records["path"])
        holds(3, hashlib.sha256(data).hexdigest() == records["sha256"], f"other records: {ref}")
    return latest["sequence"]


def key_of(line):
    return line["_ng_task_index"], line["_ng_rollout_index"]


def rollout_of(line):
    return f"{line['_ng_task_index']}-{line['_ng_rollout_index']}"


def answered_in(lines):
    """Attempts that somebody has answered."""
    ended = (line for line in lines if line.get("_ng_failure_class") != UNANSWERED)
    return {(rollout_of(line), line.get("_ng_attempt_index", 0)) for line in ended}


def identity_of(body):
    """Rollout and attempt that a /run is of."""
    if "episode_id" in body:
        return body["episode_id"]["rollout_id"], body["episode_id"]["attempt"]
    rollout_id = body.get("_ng_rollout_id") or f"{body['_ng_task_index']}-{body['_ng_rollout_index']}"
    return rollout_id, body.get("_ng_attempt_index", 0)


def code_of(request: Request):
    """Of a refusal."""
    if request.status != 409:
        return None
    return request.answer["error"]["code"]


def json_lines(data: bytes):
    """All whole lines; torn ones, which may be zeros, are nobody's."""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in lines if line.startswith(b"{")]
