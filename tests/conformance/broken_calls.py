"""Participants of which each breaks one promise about control calls."""

import json
import os
import shutil
from itertools import cycle
from pathlib import Path

from tests.conformance.broken import Broken, Changed, refuse
from tests.conformance.participants import PREFIX, TOKEN, answer
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code


class TakesAnyToken(Broken):
    async def control(self, scope, verb, call, body, send):
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        headers.append((b"authorization", f"Bearer {TOKEN}".encode()))
        await self.inner({**scope, "headers": headers}, body, send)


class TellsItsPlaceToAnybody(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "place":
            await TakesAnyToken.control(self, scope, verb, call, body, send)
        else:
            await super().control(scope, verb, call, body, send)


class IsTwoProcesses(Changed):
    """As behind `uvicorn --workers 2`."""

    def __init__(self, root):
        super().__init__(root)
        self.boots = cycle(["the one", "the other"])

    def change(self, verb, call, said):
        said["boot"] = next(self.boots)


class _Commits(Broken):
    """Something else happens before each commit."""

    async def control(self, scope, verb, call, body, send):
        if verb == "commit" and "directory" in (call or {}):
            self.before(call["directory"])
        await super().control(scope, verb, call, body, send)


class WritesOutside(_Commits):
    def before(self, directory):
        if ".." in directory:
            Path(os.path.normpath(self.root / directory)).write_bytes(b"")


class WritesBesideItsFolder(_Commits):
    def before(self, directory):
        if directory.startswith("conformance-"):
            (self.root / f"scratch-of-{directory}").write_bytes(b"")


class RemovesOlderCheckpoints(_Commits):
    latest = None

    def before(self, directory):
        if directory.startswith("conformance-"):
            if self.latest not in {None, directory}:
                shutil.rmtree(self.root / self.latest, ignore_errors=True)
            self.latest = directory


class TakesALowerEpoch(Broken):
    highest = 0

    async def control(self, scope, verb, call, body, send):
        if call is not None and isinstance(call.get("epoch"), int):
            self.highest = call["epoch"] = max(self.highest, call["epoch"])
        await super().control(scope, verb, call, body, send)


class TellsAnotherDigest(Changed):
    def change(self, verb, call, said):
        if verb == "commit":
            said["manifest"]["sha256"] = "0" * 64


class AnswersACommitBeforeItIsOnDisk(Changed):
    def change(self, verb, call, said):
        if verb == "commit":
            manifest = self.root / said["manifest"]["path"]
            for records in manifest.parent.glob("records-*"):
                records.write_bytes(records.read_bytes()[:-1] + b" ")


class WritesAfterTheResume(Broken):
    told = late = None

    async def __call__(self, scope, receive, send):
        if self.late is not None and scope["type"] == "http":
            self.late.mkdir(parents=True, exist_ok=True)
            (self.late / "records-late.jsonl").write_bytes(b"")
        await super().__call__(scope, receive, send)

    async def control(self, scope, verb, call, body, send):
        if verb == "commit" and "directory" in (call or {}):
            self.told = self.root / call["directory"]
        if verb == "resume":
            self.late = self.told
        await super().control(scope, verb, call, body, send)


class HasALeaseThatNeverEnds(Broken):
    async def control(self, scope, verb, call, body, send):
        if call is not None and isinstance(call.get("lease_ms"), int):
            call["lease_ms"] = 36_000_000
        await super().control(scope, verb, call, body, send)


class RetiresInsideACheckpoint(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "retire" and status == 409 and said["error"]["code"] == "invalid_phase":
            keys = [EpisodeId(**one).capture_key for one in call["episodes"]]
            boot = (await self.standing(scope))["boot"]
            status, said = 200, {"boot": boot, "retired": keys}
        await answer(send, status, said)


class GivesUpAtAnyGreeting(Broken):
    """The greeting of an epoch that is known already is no reason to open."""

    async def control(self, scope, verb, call, body, send):
        if verb == "hello" and call is not None:
            status = await self.standing(scope)
            if status.get("epoch") == call["epoch"] and status["operation"] is not None:
                resume = json.dumps({**call, "operation": status["operation"]}).encode()
                await self.asked({**scope, "path": PREFIX + "resume"}, resume)
        await super().control(scope, verb, call, body, send)


class ChokesOnNonsense(Broken):
    async def control(self, scope, verb, call, body, send):
        if call is None and scope["method"] == "POST":
            await answer(send, 500, {})
        else:
            await super().control(scope, verb, call, body, send)


class RefusesWhatItDoesNotKnow(Broken):
    async def control(self, scope, verb, call, body, send):
        if "a_field_that_nobody_knows" in (call or {}):
            await refuse(send, Code.BAD_REQUEST)
        else:
            await super().control(scope, verb, call, body, send)


class TellsNoEpoch(Changed):
    def change(self, verb, call, said):
        if verb == "status":
            said["epoch"] = 0


class TakesAnotherRun(Broken):
    """Whoever came first in an epoch: it is the same to this one."""

    runs = None

    async def control(self, scope, verb, call, body, send):
        self.runs = self.runs or {}
        if call is not None and "run" in call:
            call["run"] = self.runs.setdefault(call["epoch"], call["run"])
        await super().control(scope, verb, call, body, send)


class TellsNoLease(Changed):
    def change(self, verb, call, said):
        if verb == "status":
            said["lease_expires"] = None


class KeepsOpenWhatAnotherEpochLeft(Broken):
    left = False

    async def control(self, scope, verb, call, body, send):
        if call is not None:
            self.left = verb == "hello" and not await self.is_open(scope)
        status, said = await self.asked(scope, body)
        if verb == "status" and status == 200 and self.left:
            said["phase"] = "committed"
        await answer(send, status, said)


class CommitsWithoutAPrepare(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "commit" and call is not None and call["operation"] > self.over:
            await self.asked({**scope, "path": PREFIX + "prepare"}, body)
        if verb == "resume" and call is not None:
            self.over = call["operation"]
        if verb == "hello":
            self.over = 0
        await super().control(scope, verb, call, body, send)

    over = 0


class CommitsAnewEachTime(Changed):
    latest = None

    def change(self, verb, call, said):
        if verb == "commit":
            if self.latest == (call["epoch"], call["operation"]):
                said["manifest"]["sha256"] = "1" * 64
            self.latest = call["epoch"], call["operation"]


class ResumesOnce(Broken):
    async def control(self, scope, verb, call, body, send):
        again = verb == "resume" and await self.is_open(scope)
        status, said = await self.asked(scope, body)
        if again and status == 200:
            await refuse(send, Code.INVALID_PHASE)
        else:
            await answer(send, status, said)


class PreparesWhatIsOver(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "prepare" and status == 409 and said["error"]["code"] == "stale_checkpoint":
            report = {"blockers": [], "blocker_count": 0, "restarts": [], "counts": {}}
            boot = (await self.standing(scope))["boot"]
            status, said = 200, {"boot": boot, "phase": "prepared", "report": report}
        await answer(send, status, said)


class PassesOverAResumeThatItDoesNotKnow(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "resume" and call is not None and call["operation"] == 5 and await self.is_open(scope):
            boot = (await self.standing(scope))["boot"]
            await answer(send, 200, {"boot": boot, "phase": "open"})
        else:
            await super().control(scope, verb, call, body, send)


class FinishesTheOlderFirst(Broken):
    async def control(self, scope, verb, call, body, send):
        at = None if call is None or verb != "prepare" else (await self.standing(scope)).get("operation")
        if at is not None and at < call["operation"]:
            await refuse(send, Code.INVALID_PHASE)
        else:
            await super().control(scope, verb, call, body, send)


class GivesUpWithTheCall(Broken):
    async def control(self, scope, verb, call, body, send):
        await super().control(scope, verb, call, body, send)
        if verb == "commit" and call is not None and call["budget_ms"] == 0:
            await self.asked(
                {**scope, "path": PREFIX + "resume"}, json.dumps({**call, "budget_ms": 999}).encode()
            )


class RetiresNobody(Broken):
    async def control(self, scope, verb, call, body, send):
        if verb == "retire" and call is not None and call.get("episodes") == []:
            await answer(send, 200, {"boot": (await self.standing(scope))["boot"], "retired": []})
        else:
            await super().control(scope, verb, call, body, send)


class OpensAfterARestore(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "restore" and status == 200:
            await self.asked({**scope, "path": PREFIX + "resume"}, body)
        await answer(send, status, said)


class InstallsWhatIsDamaged(Broken):
    async def control(self, scope, verb, call, body, send):
        status, said = await self.asked(scope, body)
        if verb == "restore" and status == 422:
            boot = (await self.standing(scope))["boot"]
            status, said = 200, {"boot": boot, "phase": "restored", "installed": []}
        await answer(send, status, said)
