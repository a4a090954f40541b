"""What must be so, asked of what can be seen from outside: the disk, the requests, and each server's state.

The numbers are those of the design's invariants, and begin every complaint:

1  output only grows, one success a row, none is sent that had one (`listen`); at last all have (`finish`)
2  attempts increase, each is sent once (`_check_sends`)
3  what LATEST names is whole and never older; a try that was not published leaves it as it was (`listen`)
4  after a publish there are two checkpoints at most, and no drafts (`_check_folders`)
5  no row starts in a checkpoint, nothing is retired in one that goes on (`listen`, `arrives`, `EachStep`)
6  what is continued has an environment's record, and had no result before the cut (`_check_continued`)
7  nothing older is at work when an attempt is sent; what was answered is not retired (`arrives`)
8  everybody is open at the end (`finish`)
9  commits of one operation answer alike, and nothing is committed after its resume was answered (`answers`)
10 no attempt is refused for a mark on an earlier one (`answers`); what is restored, 12 and 13 ask after
11 no model call is repeated: asked of real processes, by `fuzz.oracle`
12 no effect is played twice, none is missing (`_check_played`); what cannot be captured is not continued
13 results tell what was done (`_check_effects`)
14 a stop ends within its grace (`living`)
15 after a death at any sync all of this holds (`story`)
16 at the end nobody keeps anything of a rollout (`finish`)
"""

import itertools
import json
from collections import defaultdict
from pathlib import Path

from fuzz.simulation.network import OK, PREFIX, Request
from fuzz.simulation.reading import (
    answered_in,
    code_of,
    identity_of,
    json_lines,
    kept_by,
    key_of,
    latest_collection,
    records_in,
    rollout_of,
    sequence_of_whole,
)
from fuzz.simulation.steps import EachStep
from fuzz.simulation.story import Life
from triocollect.events import CheckpointEnded, CheckpointStarted, Note, RowSent

CHANGES = 2  # effects of a whole rollout, beside the seed
NOTHING_RAN = {
    "checkpoint_open",
    "not_restored",
    "stale_attempt",
    "stale_epoch",
    "other_run",
    "duplicate_attempt",
}


class Oracle:
    """Remembers over all lives."""

    def __init__(self, folder: Path, rows: int, *, mixed: bool = False):
        self.folder, self.rows, self.mixed = folder, rows, mixed
        self.life_number = 0
        self.notes: list[str] = []
        self.faults: list[str] = []
        self.sent: dict[str, list[tuple[int, Request]]] = defaultdict(list)  # /run by rollout, in order
        self.restored: dict[tuple[str, int], dict | None] = {}  # what each continued attempt began from
        self.open_operation: int | None = None
        self.goes_on = True  # the open operation is no stop
        self.latest_before: bytes | None = None
        self.done_before: set[str] = set()  # rollouts with a result when the checkpoint began
        self.manifests: dict[tuple[object, ...], object] = {}  # by life, host, boot and operation
        self.resumed: dict[str, int] = {}  # the last operation of this life that a host has resumed
        self.instrument = EachStep(self)
        self._unpruned = False  # the last publish of this life
        self._output = b""
        self._done: set[tuple[int, int]] = set()
        self._sequence = 0
        self._may_be_gone = False  # a fresh run forgets it
        self._harmed: bytes | None = None  # LATEST when something was damaged
        self.servers = self.life = None
        self.counts = defaultdict(int)

    def begin(self, servers, life: Life):
        self.life_number += 1
        self.servers, self.life, self.open_operation = servers, life, None
        self.instrument.closed_with = None
        self.resumed.clear()
        self._unpruned = False
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
        stopped = report is None or report.ending in {"preempted", "interrupted"}
        assert stopped or not self._unpruned, "4: nobody told it to stop, and it pruned nothing"
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
            case CheckpointStarted(operation=operation, why=why):
                self.open_operation, self.goes_on = operation, why != "stop"
                assert not self._unpruned, "4: the run went on from a publish, and pruned nothing"
                self.latest_before = self._read("checkpoints/LATEST")
                self.done_before = {rollout_of(line) for line in self._lines("out.jsonl")}
            case CheckpointEnded(outcome=outcome):
                self.open_operation = None
                self.counts["published" if outcome.published else "not published"] += 1
                if outcome.published:
                    self._check_continued()
                    self._check_folders(pruned="prune" in outcome.phases_s)
                elif self._read("checkpoints/LATEST") != self.latest_before:
                    self.faults.append("3: LATEST moved, and nothing was published")
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
        elif request.path == f"{PREFIX}retire":
            self._retire_arrives(json.loads(request.body))

    def answers(self, request: Request):
        """An answer is on its way back."""
        if request.path == "/run" and code_of(request) == "stale_attempt":
            _rollout_id, attempt = identity_of(json.loads(request.body))
            if json.loads(request.reply)["error"]["retired_through"] < attempt:
                self.faults.append(f"10: {request.reply} to attempt {attempt}")
        elif request.path == f"{PREFIX}resume" and request.status == OK:
            operation = json.loads(request.body)["operation"]
            self.resumed[request.host] = max(operation, self.resumed.get(request.host, 0))
        elif request.path == f"{PREFIX}commit" and request.status == OK:
            operation, reply = json.loads(request.body)["operation"], json.loads(request.reply)
            if operation <= self.resumed.get(request.host, 0):
                self.faults.append(f"9: {request.host} committed {operation} after its resume")
            name = self.life_number, request.host, reply["boot"], operation
            if self.manifests.setdefault(name, reply["manifest"]) != reply["manifest"]:
                self.faults.append(f"9: {request.host} committed {operation} twice, as {reply['manifest']}")

    def _retire_arrives(self, call):
        if self.open_operation is not None and self.goes_on:
            self.faults.append(f"5: {call['episodes']} are retired in the open checkpoint")
        lines = [*self._lines("out.jsonl"), *self._lines("out_failures.jsonl")]
        answered = answered_in(lines)
        for one in call["episodes"]:
            if (one["rollout_id"], one["attempt"]) in answered:
                self.faults.append(f"7: {one} was answered and is retired")

    def _check_continued(self):
        """6, of the checkpoint that was published just now."""
        folder, collection = latest_collection(self.folder / "checkpoints")
        boundaries = records_in(folder / "participants" / "environment" / "environment")
        for one in collection["continued"]:
            if (one["rollout_id"], one["attempt"]) not in boundaries:
                self.faults.append(f"6: {one} is continued, and no environment exported it")
            if one["rollout_id"] in self.done_before:
                self.faults.append(f"6: {one} is continued, and had its result")

    def _check_folders(self, *, pruned: bool):
        """4; only a stop, also one that met this checkpoint, leaves its prune to the next life."""
        self._unpruned = not pruned
        if not pruned:
            return
        names = sorted(path.name for path in (self.folder / "checkpoints").iterdir())
        folders = [name for name in names if name.startswith("ckpt-")]
        drafts = [name for name in names if name.endswith(".tmp") or name.startswith(".trash")]
        if len(folders) > 2 or drafts:
            self.faults.append(f"4: {folders + drafts} after a publish")

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
            captured = not (self.mixed and int(one["rollout_id"].partition("-")[0]) % 2)
            assert captured or not boundary["step"], f"12: {episode} is continued, and nobody captured it"
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
        sequence = sequence_of_whole(checkpoints)
        assert sequence >= self._sequence, "3: LATEST went back"
        self._sequence, self._may_be_gone = sequence, self.life.fresh

    def _read(self, name):
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def _lines(self, name):
        data = self._read(name)
        return json_lines(data[: data.rfind(b"\n") + 1])
