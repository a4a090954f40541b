"""A run that was preempted, as its files lie about: made by hand, with names that stay the same."""

import hashlib
import json

import msgspec
from msgspec import UNSET

from tests.checkpoint.checkpoints import a_collection, commit
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.store import Store
from triocollect.protocol.files import RunFile
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import CheckpointOutcome, DispatchHeader, LockFile, Restarted

RUN = "4f2c"
ROWS = 6
CREW = (("environment", "env"), ("agent", "agent"))


def lines(*objects):
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def row(task, **more):
    return {"_ng_task_index": task, "_ng_rollout_index": 0, **more}


def result(task, **more):
    return row(task, reward=1.0, **more)


def write_output(folder, *, checkpoints=RUN):
    """Rows 0 and 1 are done, row 2 has failed with an answer."""
    rows = lines(*map(row, range(ROWS)))
    (folder / "out_materialized_inputs.jsonl").write_bytes(rows)
    digest = hashlib.sha256(rows).hexdigest()
    run = RunFile(run="r1", created="", rows=ROWS, rows_sha256=digest, fields={}, checkpoints=checkpoints)
    (folder / "out_run.json").write_bytes(msgspec.json.encode(run))
    (folder / "out.jsonl").write_bytes(lines(result(0), result(1)))
    failure = row(2, _ng_failure_class="agent_run_error")
    (folder / "out_failures.jsonl").write_bytes(lines(failure))
    return folder / "out.jsonl"


def publish(store, *continued, restarted=(), crew=CREW, output=UNSET):
    """A checkpoint of these episodes; its id follows from its number."""
    sequence = store.next_sequence()
    checkpoint_id = f"c-{sequence:06d}-{sequence:08x}"
    folder = store.begin(sequence)
    parts = [commit(folder, checkpoint_id, kind, instance, continued) for kind, instance in crew]
    collection = a_collection(sequence, parts, checkpoint_id, continued)
    store.publish(msgspec.structs.replace(collection, restarted=tuple(restarted), output=output))
    return folder


def write_directory(root, *, run=RUN):
    """Two checkpoints; LATEST continues row 3 and leaves row 4 out; row 5 was sent after it."""
    root.mkdir()
    lock = LockFile(run=run, epoch=2, pid=4711, host="n1", started="2026-01-02T03:00:00+00:00")
    (root / "collector.lock").write_bytes(msgspec.json.encode(lock))
    store = Store(root)
    publish(store, EpisodeId("3-0"))
    left_out = Restarted("4-0", 0, reason="resources sql cannot capture it")
    publish(store, EpisodeId("3-0", 1), restarted=[left_out])
    store.prune()
    header = DispatchHeader(run, 2, 1, 0)
    log = start_dispatched(root / "dispatched.jsonl", header, {"3-0": 0}, boot="b")
    log.append([EpisodeId(f"{task}-0", int(task == 3)) for task in range(ROWS)])
    log.end()
    outcomes = [
        outcome(1, published=True, continued=1, work_s=30.5, bytes=128),
        outcome(2, published=True, continued=1, restarted=1, work_s=60.0, bytes=128),
        outcome(3, published=False, reason="agent waits for 5-0 (in a tool)"),
    ]
    (root / "outcomes.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in outcomes))
    return root


def outcome(number, **facts):
    ended = f"2026-01-02T03:{number:02d}:00+00:00"
    checkpoint_id = f"c-{number:06d}-{number:08x}"
    return CheckpointOutcome(operation=number, checkpoint_id=checkpoint_id, ended=ended, **facts)


def snapshot(folder):
    """Every file below, with its bytes and times."""
    return {
        path: (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }
