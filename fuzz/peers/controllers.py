"""A lying controller against a participant: it does what a rightful one may ask, nothing else, and opens."""

import json
import random
from pathlib import Path
from typing import Final

import httpx
import msgspec
import trio
import trio.testing

from fuzz.invariants import broken, holds
from fuzz.peers.life import simulated
from fuzz.peers.usurper import Usurper, next_of
from fuzz.tally import Tally
from tests.checkpoint.network import TOKEN, Network
from triocollect.protocol.refusals import Code, RefusalBody, status_of

STEPS: Final = 24
LONGEST_LEASE_S: Final = 2 * 7 * 24 * 3600.0 + 60.0  # a week of budget and a week of lease may be asked for
MUST_BE: Final = {  # where a call may be carried out
    "prepare": {"open", "preparing", "prepared", "committing", "committed", "restoring", "restored"},
    "commit": {"prepared", "committing", "committed"},
    "restore": {"open", "preparing", "prepared", "committing", "committed", "restoring", "restored"},
    "retire": {"open", "restored"},
    "forget": {"open"},
}
CHANGES_NO_PHASE: Final = {"retire", "forget"}
ON_ITS_WAY: Final = {
    "preparing",
    "committing",
    "restoring",
}  # what it is at may be over when the call's turn comes
CHANGE_NOTHING: Final = {Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.STALE_EPOCH, Code.OTHER_RUN}


async def _step(here: Usurper, tally: Tally) -> None:
    sending = next_of(here)
    if sending is None:
        await trio.sleep(here.dice.choice((0.1, 2.0, 70.0)))
        return
    before, held, files = await here.status(), dict(here.server.held), here.files()
    path = f"/{sending.verb}" if sending.path is None else sending.path
    answer = await here.send(sending.method, f"/checkpoint/v1{path}", sending.body, sending.token)
    if answer.status_code == 200:
        outcome = "done"
        if sending.path is None:
            after = (await here.status())["phase"]
            _judge_done(here, sending.verb, _fields_of(sending.body), (before, after), answer.json())
    else:
        outcome = _judge_refused(answer, before, await here.status())
        if sending.verb == "restore":
            operation = _operation_in(sending.body)
            # One that is newer has ended the one before it, and what that had restored is nobody's.
            newer = operation > (before["operation"] or 0)
            left = here.server.held.items()
            untouched = left <= held.items() if newer else left == held.items()
            holds(10, untouched, "a restore that was refused has left something")
    known = sending.token == f"Bearer {TOKEN}"
    holds("security", known or answer.status_code == 401, f"the token {sending.token!r} is taken")
    _judge_files(here, files)
    if sending.way != "rightful":
        tally.fault(sending.way, sending.verb, sending.told(before["phase"]), outcome)


def _fields_of(body: bytes) -> dict[str, object]:
    found = json.loads(body.decode(errors="replace"))
    return found if isinstance(found, dict) else {}


def _operation_in(body: bytes) -> int:
    """None is below all."""
    try:
        operation = _fields_of(body).get("operation")
    except (ValueError, RecursionError):
        return -1  # nonsense
    return operation if isinstance(operation, int) else -1


def _judge_refused(answer: httpx.Response, before, after) -> str:
    try:
        refusal = msgspec.json.decode(answer.content, type=RefusalBody).error
        code = Code(refusal.code)
    except ValueError:  # which msgspec's errors are
        broken(
            "protocol",
            f"an answer that is none of the protocol: {answer.status_code} {answer.content[:300]!r}",
        )
    holds("words", "the participant itself failed" not in refusal.detail, f"it failed: {refusal.detail}")
    holds("protocol", answer.status_code == status_of(code), f"{code} came with {answer.status_code}")
    stands = [(one["phase"], one["operation"], one["epoch"]) for one in (before, after)]
    if code in CHANGE_NOTHING:
        holds(
            "protocol",
            stands[0] == stands[1],
            f"what was refused as {code} moved it from {stands[0]} to {stands[1]}",
        )
    if code is Code.UNAUTHORIZED:
        holds(
            "security",
            refusal.phase is None and refusal.operation is None,
            "who has no token learns where it stands",
        )
    return str(code)


def _judge_done(here: Usurper, verb: str, sent: dict[str, object], stands, reply) -> None:
    """`stands`: its status before, and its phase after it."""
    before, after = stands
    phase, epoch = before["phase"], sent.get("epoch", 0)
    holds(2, epoch >= before["epoch"], f"{verb} of epoch {epoch} is carried out in epoch {before['epoch']}")
    same = epoch == before["epoch"]
    if same and verb in MUST_BE and before["operation"] == sent.get("operation"):
        number = 5 if verb in {"retire", "forget"} else 9
        stood = after if phase in ON_ITS_WAY and verb in CHANGES_NO_PHASE else phase
        holds(number, stood in MUST_BE[verb], f"{verb} is carried out while {phase}, {after} after it")
    if verb == "restore":
        holds(10, not before["served"], "a participant that has served is restored into")
    if verb == "commit":
        key = (sent["run"], epoch, sent["operation"])
        holds(9, same and phase in MUST_BE["commit"], f"a commit is carried out while {phase}")
        known = here.committed.setdefault(key, reply["manifest"])
        holds(9, known == reply["manifest"], "two commits of one operation wrote different things")
        here.manifest = reply["manifest"]["sha256"] if sent["directory"] == "ckpt-000001" else here.manifest
    if verb == "resume":
        older = sent["operation"] < (before["operation"] or 0)
        holds(8, older or reply["phase"] == "open", "it resumed, and is closed")


def _judge_files(here: Usurper, before: frozenset[str]) -> None:
    """New files are where a commit may write, and nowhere else."""
    for name in here.files() - before:
        inside = name.startswith(f"{here.root.name}/") and not name.startswith(f"{here.root.name}/link")
        holds("security", inside, f"{name} was made, which is not in the checkpoint directory")
        ours = "participants" in name or (here.root.parent / name).is_dir()
        holds("security", ours, f"{name} was made, which is no participant's")


async def live(root: Path, seed: int, tally: Tally) -> None:
    """One participant's life among lies. Raises BrokenError."""
    dice = random.Random(seed)
    (root / "checkpoints").mkdir()
    (root / "beside").mkdir()
    (root / "checkpoints" / "link").symlink_to(root / "beside")
    async with trio.open_nursery() as nursery:
        here = Usurper(root / "checkpoints", Network(nursery, root / "checkpoints"), dice)
        await here.start(served=True)
        for _ in range(STEPS):
            await _step(here, tally)
        if dice.random() < 0.5:
            await here.start(served=False)
            for _ in range(STEPS // 2):
                await _step(here, tally)
        await trio.sleep(LONGEST_LEASE_S)
        status = await here.status()
        holds(8, status["phase"] == "open", f"it is {status['phase']} when every lease is over")
        holds(8, not here.server.admission.closed, "it lets nobody in when every lease is over")
        nursery.cancel_scope.cancel()
    tally.explored += 1


def controllers_lie(seed: int, tally: Tally) -> None:
    """One life with the lies of this seed. Raises BrokenError."""
    simulated(live, seed, tally)
