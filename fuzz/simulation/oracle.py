"""What must be so, asked of what can be seen from outside: the disk, the requests, and each server's state.

The numbers are those of the design's invariants.
"""

import hashlib
import itertools
import json
from collections import defaultdict
from pathlib import Path

import trio

from fuzz.simulation.network import PREFIX, Request
from fuzz.simulation.story import Life
from triocollect.events import CheckpointEnded, CheckpointStarted, Note, RowSent

CHANGES = 2  # effects of a whole rollout, beside the seed
NOTHING_RAN = {"checkpoint_open", "not_restored", "stale_attempt", "stale_epoch", "duplicate_attempt"}


class Oracle:
    """Remembers over all lives."""

    def __init__(self, folder: Path, rows: int):
        self.folder, self.rows = folder, rows
        self.life_number = 0
        self.notes: list[str] = []
        self.faults: list[str] = []
        self.sent: dict[str, list[tuple[int, Request]]] = defaultdict(list)  # /run by rollout, in order
        self.restored: dict[tuple[str, int], dict | None] = {}  # what each continued attempt began from
        self.open_operation: int | None = None
        self.instrument = _EachStep(self)
        self._output = b""
        self._done: set[tuple[int, int]] = set()
        self._sequence = 0
        self._may_be_gone = False  # a fresh run forgets it
        self._harmed: bytes | None = None  # what LATEST said when something below it was damaged
        self.servers = self.life = None
        self.counts = defaultdict(int)

    def begin(self, servers, life: Life):
        self.life_number += 1
        self.servers, self.life, self.open_operation = servers, life, None
        self.instrument.closed_with = None
        self._done = set() if life.fresh else {key_of(line) for line in self._lines("out.jsonl")}
        if life.fresh:
            self._output, self._may_be_gone = b"", True

    def harmed(self):
        """Something outside has damaged the checkpoint directory."""
        self._harmed = self._read("checkpoints/LATEST")

    def end(self, report):
        """Of a life, dead or not: the disk is as the next one finds it."""
        assert not self.faults, "\n".join(self.faults)
        output = self._read("out.jsonl")
        assert output.startswith(self._output), "1: what was written is gone"
        self._output = output
        whole = output[: output.rfind(b"\n") + 1]
        keys = [key_of(json.loads(line)) for line in whole.splitlines()]
        assert len(keys) == len(set(keys)), f"1: a row succeeded twice: {sorted(keys)}"
        self._check_latest()
        self._check_sends()
        self._check_effects({key_of(line): line for line in map(json.loads, whole.splitlines())})
        self.counts[f"life ended {'dead' if report is None else report.ending}"] += 1
        for _attempt, request in itertools.chain(*self.sent.values()):
            self.counts[code_of(request)] += 1
        self.counts["failed"] = len(self._lines("out_failures.jsonl"))

    def finish(self, report):
        """After the life that nobody disturbed."""
        assert report is not None
        succeeded = {key_of(line) for line in self._lines("out.jsonl")}
        failed = {key_of(line): line for line in self._lines("out_failures.jsonl")}
        missing = {(number, 0) for number in range(self.rows)} - succeeded
        assert not missing, f"1: rows without a result: {[(key, failed.get(key)) for key in sorted(missing)]}"
        for name, hooks in self.servers.participants.items():
            hooks.admission.end_expired_lease()
            assert not hooks.admission.closed, f"8: {name} is closed at the end"
            assert not hooks.admission.attendance.needed, f"{name} has heard no goodbye"
            kept = kept_by(hooks)
            assert not any(kept.values()), f"16: {name} keeps {kept}"

    def listen(self, event):
        match event:
            case CheckpointStarted(operation=operation):
                self.open_operation = operation
            case CheckpointEnded(outcome=outcome):
                self.open_operation = None
                self.counts["published" if outcome.published else "not published"] += 1
            case RowSent(key=key):
                if self.open_operation is not None:
                    self.faults.append(f"5: row {key} started in the open checkpoint {self.open_operation}")
                if (key.task, key.rollout) in self._done:
                    self.faults.append(f"1: row {key} was sent although it had a result")
            case Note(text=text):
                self.notes.append(text)
            case _:
                pass

    def arrives(self, request: Request):
        self.counts[request.door] += 1
        if request.path == "/run":
            self._run_arrives(request)
        elif request.path == f"{PREFIX}resume" and request.host == "environment":
            self.open_operation = None  # from here on rows may go on
        elif request.path == f"{PREFIX}restore" and request.host == "counter":
            self._restore_arrives(json.loads(request.body))

    def _run_arrives(self, request: Request):
        rollout_id, attempt = identity_of(json.loads(request.body))
        self.counts["continued"] += request.header(b"x-continued") == b"1"
        self.sent[rollout_id].append((attempt, request))
        for name, hooks in self.servers.participants.items():
            older = [
                work.episode
                for work in hooks.admission.works
                if work.episode is not None
                and work.episode.rollout_id == rollout_id
                and work.episode.attempt < attempt
            ]
            if older:
                self.faults.append(f"7: {rollout_id}:{attempt} was sent while {older} was at work in {name}")

    def _restore_arrives(self, call):
        """What each attempt to come begins from; None where that is before its seed."""
        folder = self.folder / "checkpoints" / call["directory"] / "participants"
        states = records_in(folder / "resources" / "counter")
        boundaries = records_in(folder / "environment" / "environment")
        for one in call["scope"]:
            episode = one["rollout_id"], one["attempt"]
            boundary = boundaries[episode]
            if not boundary["step"]:
                begins_from = None
            elif episode in states:
                begins_from = states[episode]
            else:  # judged and closed
                assert boundary["record"] is not None, f"12: {episode} is continued without its session"
                record = boundary["record"]
                begins_from = {"seed": None, "effects": record["effects"], "value": record["final_value"]}
            self.restored[one["rollout_id"], one["becomes"]] = begins_from

    def _check_sends(self):
        """2: attempts increase, and each is sent once, unless the answer said that nothing ran."""
        for rollout_id, sends in self.sent.items():
            for (before, request), (attempt, _) in itertools.pairwise(sends):
                again = attempt == before and code_of(request) in NOTHING_RAN
                assert attempt > before or again, f"2: {rollout_id} was sent as {[n for n, _ in sends]}"

    def _check_effects(self, succeeded):
        """12, 13: the effects of a result are one story, whatever lives it was played in."""
        lines = defaultdict(list)
        for line in self._lines("effects/counter.jsonl"):
            lines[line["rollout_id"], line["attempt"]].append(line)
        for (rollout_id, attempt), played in lines.items():
            self._check_played(rollout_id, attempt, played)
        for key, record in succeeded.items():
            rollout_id = f"{key[0]}-{key[1]}"
            attempt = record.get("_ng_attempt_index", 0)
            last = self._last_state(lines, rollout_id, attempt)
            assert last is not None, f"12: {rollout_id}:{attempt} has a result and no effects"
            assert last["effects"] == record["effects"] == CHANGES, f"12: effects are missing: {record}"
            assert record["final_value"] - record["start_value"] == key[0] + 41, f"13: {record}"
            assert last["value"] == record["final_value"], f"13: {record}"

    def _check_played(self, rollout_id, attempt, played):
        state = self.restored.get((rollout_id, attempt))
        for line in played:
            after = line["state"]
            if line["effect"] == "seed":
                assert state is None, f"12: {rollout_id}:{attempt} was seeded twice: {state}, {after}"
            else:
                assert state is not None, f"12: {rollout_id}:{attempt} went on from nothing: {after}"
                same = after["seed"] == state["seed"] and after["effects"] == state["effects"] + 1
                amount = line["arguments"]["amount"]
                assert same, f"12: {state} became {after}"
                assert after["value"] == state["value"] + amount, f"12: {state} became {after}"
            state = after

    def _last_state(self, lines, rollout_id, attempt):
        played = lines.get((rollout_id, attempt))
        return played[-1]["state"] if played else self.restored.get((rollout_id, attempt))

    def _check_latest(self):
        """3: LATEST names something whole, and never goes back."""
        checkpoints = self.folder / "checkpoints"
        if not (checkpoints / "LATEST").exists():
            assert self._may_be_gone or not self._sequence, "3: LATEST is gone"
            return
        if self._read("checkpoints/LATEST") == self._harmed:
            return
        self._harmed = None
        latest = json.loads((checkpoints / "LATEST").read_bytes())
        folder = checkpoints / f"ckpt-{latest['sequence']:06}"
        collection = (folder / "collection.json").read_bytes()
        assert hashlib.sha256(collection).hexdigest() == latest["sha256"], "3: another collection.json"
        for ref in json.loads(collection)["participants"]:
            manifest = (folder / ref["manifest"]).read_bytes()
            assert hashlib.sha256(manifest).hexdigest() == ref["sha256"], f"3: {ref}"
            records = json.loads(manifest)["records"]
            data = ((folder / ref["manifest"]).parent / records["path"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == records["sha256"], f"3: {ref}"
        assert latest["sequence"] >= self._sequence, "3: LATEST went back"
        self._sequence, self._may_be_gone = latest["sequence"], self.life.fresh

    def _read(self, name):
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def _lines(self, name):
        data = self._read(name)
        return json_lines(data[: data.rfind(b"\n") + 1])


class _EachStep(trio.abc.Instrument):
    """What is asked after every step of every task."""

    def __init__(self, oracle: Oracle):
        self._oracle = oracle
        self.closed_with: frozenset | None = None

    def after_task_step(self, task):
        servers = self._oracle.servers
        process = servers and servers.processes.get("environment")
        if not process:
            return
        episodes = process.hooks
        if not episodes.admission.closed:
            self.closed_with = None
            return
        now = frozenset(episodes.under_way)
        if self.closed_with is not None and not now <= self.closed_with:
            self._oracle.faults.append(f"5: {set(now - self.closed_with)} began while closed")
        self.closed_with = now


def kept_by(hooks):
    """How much a participant keeps of any episode, by what it calls it."""
    kept = {"marks": len(hooks.admission.marks), "restored": hooks.restored_pending()}
    kept["works"] = len(hooks.admission.works)
    match hooks.kind:
        case "environment":
            kept["under way"] = len(hooks.under_way)
        case "model":
            later = [name for name in hooks.ledger._rows if name.attempt]  # noqa: SLF001  # a lost close leaves rows
            kept |= {"ledger": len(later), "calls": len(hooks.calls.serving)}
        case _:
            kept["sessions"] = len(hooks)
    return kept


def records_in(place: Path):
    manifest = json.loads((place / "manifest.json").read_bytes())
    lines = json_lines((place / manifest["records"]["path"]).read_bytes())
    return {(one["rollout_id"], one["attempt"]): one["state"] for one in lines}


def key_of(line):
    return line["_ng_task_index"], line["_ng_rollout_index"]


def identity_of(body):
    if "episode_id" in body:
        return body["episode_id"]["rollout_id"], body["episode_id"]["attempt"]
    rollout_id = body.get("_ng_rollout_id") or f"{body['_ng_task_index']}-{body['_ng_rollout_index']}"
    return rollout_id, body.get("_ng_attempt_index", 0)


def code_of(request: Request):
    if request.status != 409:
        return None
    return json.loads(request.reply)["error"]["code"]


def json_lines(data: bytes):
    return [json.loads(line) for line in data.splitlines()]
