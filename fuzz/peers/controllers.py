"""A lying controller against a real participant: what a rightful one may is done, the rest refused; it opens.

Calls out of turn, of other runs and lower epochs, with paths that lead away, wrong tokens, wrong methods and
bodies that are nothing; between them rightful ones, so that there is something to do harm to.
"""

import json
import random
from pathlib import Path
from typing import Final

import httpx
import msgspec
import trio
import trio.testing
from attrs import frozen

from fuzz.files.harms import HARMS
from fuzz.invariants import broken, holds
from fuzz.peers.lies import KEYS
from fuzz.peers.life import simulated
from fuzz.tally import Tally
from tests.checkpoint.network import TOKEN, Network
from tests.checkpoint.server import Server
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.refusals import Code, RefusalBody, status_of

STEPS: Final = 24
LONGEST_LEASE_S: Final = 2 * 7 * 24 * 3600.0 + 60.0  # a week of budget and a week of lease may be asked for
VERBS: Final = ("hello", "prepare", "commit", "resume", "restore", "retire", "forget")
WAYS: Final = (*["rightful"] * 3, *["untrue"] * 2, "nonsense", "wrong token", "wrong method", "time")
PATHS: Final = ("", "/", "/prepare/", "/x", "/status", "//commit")
IN_TURN: Final = {"open": "prepare", "prepared": "commit", "committed": "resume"}
MUST_BE: Final = {  # where a call may be carried out
    "prepare": {"open", "preparing", "prepared", "committing", "committed", "restoring", "restored"},
    "commit": {"prepared", "committing", "committed"},
    "restore": {"open", "preparing", "prepared", "committing", "committed", "restoring", "restored"},
    "retire": {"open", "restored"},
    "forget": {"open"},
}
CHANGE_NOTHING: Final = {Code.BAD_REQUEST, Code.UNAUTHORIZED, Code.STALE_EPOCH, Code.OTHER_RUN}
DIRECTORIES: Final = (
    "..", "../..", "../beside", "/tmp/triocollect-escape", "a/../../beside", "ckpt-000001/..", "", ".", "./a",
    "a//b", "a/./b", "a\0b", "link", "link/inside", "a/../b", "\u2025/x", "ckpt-000001/participants",
    "x" * 300,
)  # fmt: skip
TOKENS: Final = (
    None, "", "Bearer", "Bearer ", f"bearer {TOKEN}", TOKEN, f"Bearer {TOKEN} ", f"Bearer  {TOKEN}",
    f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {TOKEN.upper()}", "Bearer \xff",
)  # fmt: skip
ONE, TWO = EpisodeId("0-0"), EpisodeId("1-0")


class Usurper:
    """Who sends the calls, and what was answered. `root` is the checkpoint directory; `beside` is not."""

    def __init__(self, root: Path, network: Network, dice: random.Random) -> None:
        self.root, self.network, self.dice = root, network, dice
        self.run, self.epoch, self.operation = "r1", 1, 0
        self.manifest, self.phase = "0" * 64, "open"
        self.committed: dict[tuple[str, int, int], object] = {}
        self.resumed: dict[str, frozenset[str]] = {}  # directories that nothing may appear in any more
        self.server = Server("environment", "one")

    async def start(self, *, served: bool) -> None:
        """A new process."""
        self.server = Server("environment", "one")
        if served:
            for episode in (ONE, TWO):
                self.server.begin(episode, "a step is under way" if self.dice.random() < 0.2 else None)
        await self.network.mount("environment", self.server)

    async def send(self, method: str, path: str, body: bytes | None, token: str | None) -> httpx.Response:
        """One exchange, whatever it is."""
        headers = [] if token is None else [(b"authorization", token.encode("latin-1"))]
        request = httpx.Request(method, f"http://environment{path}", content=body, headers=headers)
        answer = await self.network.planes["environment"].handle_async_request(request)
        return httpx.Response(answer.status_code, content=await answer.aread())

    async def status(self) -> dict[str, object]:
        """Where it stands."""
        answer = await self.send("GET", "/checkpoint/v1/status", None, f"Bearer {TOKEN}")
        holds("protocol", answer.status_code == 200, f"status is refused: {answer.content[:200]}")
        self.phase = answer.json()["phase"]
        return answer.json()

    def rightful(self, verb: str) -> dict[str, object]:
        """The call as the collector would make it now."""
        if verb in {"prepare", "restore", "retire", "forget"} and self.dice.random() < 0.7:
            self.operation += 1
        common = {
            "run": self.run,
            "epoch": self.epoch,
            "operation": 0 if verb == "hello" else self.operation,
            "budget_ms": self.dice.choice((1000, 5000)),
            "lease_ms": 60_000,
        }
        scope = [{"rollout_id": one.rollout_id, "attempt": one.attempt} for one in (ONE, TWO)]
        place = {"checkpoint_id": f"c-{self.operation}", "directory": f"ckpt-{self.operation:06d}"}
        more: dict[str, dict[str, object]] = {
            "commit": {**place, "scope": scope, "stop": self.dice.random() < 0.1},
            "restore": {
                "checkpoint_id": "c-1",
                "directory": "ckpt-000001",
                "manifest_sha256": self.manifest,
                "scope": [{**one, "becomes": 1} for one in scope],
            },
            "retire": {"episodes": scope[:1]},
            "forget": {"rollout_ids": ["0-0"], "goodbye": self.dice.random() < 0.1},
        }
        return {**common, **more.get(verb, {})}

    def untrue(self, call: dict[str, object]) -> dict[str, object]:
        """One field is what it should not be."""
        dice = self.dice
        name = "directory" if "directory" in call and dice.random() < 0.5 else dice.choice(list(call))
        numbers = (-1, 0, 1, self.epoch - 1, self.operation + 1, 1 << 53, 10**30, 10**4299, 1.5, "1", None)
        other = {
            "run": ("r2", "", 7, None, "x" * 10_000),
            "epoch": numbers,
            "operation": numbers,
            "budget_ms": (0, -1, 1, 7 * 24 * 3_600_000, 7 * 24 * 3_600_000 + 1, 10**30),
            "lease_ms": (0, -1, 1, 7 * 24 * 3_600_000, 7 * 24 * 3_600_000 + 1, 10**30),
            "directory": DIRECTORIES,
            "checkpoint_id": ("", "../x", "c-9", 7),
            "manifest_sha256": ("", "0" * 64, "../x"),
            "scope": ([], self._episodes(), [{"rollout_id": "0-0"}] * 2, None, "0-0"),
            "episodes": ([], self._episodes(), self._episodes() * 2000, None),
            "rollout_ids": ([], list(KEYS), ["0-0"] * 3000, None),
        }.get(name, (None, 1, "x"))
        if dice.random() < 0.1:
            return {key: value for key, value in call.items() if key != name}
        return {**call, name: dice.choice(other)}

    def _episodes(self) -> list[dict[str, object]]:
        attempts = (0, 1, -1, 1 << 31, 10**30)
        becomes = (0, 1, 5, -1)
        return [
            {"rollout_id": key, "attempt": self.dice.choice(attempts), "becomes": self.dice.choice(becomes)}
            for key in self.dice.sample(KEYS, 3)
        ]

    def files(self) -> frozenset[str]:
        """Everything below the folder that holds the checkpoint directory."""
        return frozenset(str(path.relative_to(self.root.parent)) for path in self.root.parent.rglob("*"))


@frozen
class Sending:
    """One exchange. `way`: what is true or untrue of it."""

    way: str
    verb: str
    body: bytes
    token: str | None = f"Bearer {TOKEN}"
    method: str = "POST"
    path: str | None = None


def _next(here: Usurper) -> Sending | None:
    """What is sent next; None: time passes."""
    dice, way = here.dice, here.dice.choice(WAYS)
    in_turn = IN_TURN.get(here.phase)
    verb = in_turn if in_turn is not None and dice.random() < 0.5 else dice.choice(VERBS)
    if way == "rightful" and dice.random() < 0.1:
        here.epoch, here.operation = here.epoch + 1, 0
    sent = here.rightful(verb)
    body = json.dumps(here.untrue(sent) if way == "untrue" else sent).encode()
    match way:
        case "time":
            return None
        case "nonsense":
            return Sending(way, verb, HARMS[dice.choice(list(HARMS))](dice, body))
        case "wrong token":
            return Sending(way, verb, body, token=dice.choice(TOKENS))
        case "wrong method":
            method, path = dice.choice(("GET", "PUT", "DELETE", "PATCH", "POST")), dice.choice(PATHS)
            return Sending(way, verb, body, method=method, path=path)
        case _:
            return Sending(way, verb, body)


async def _step(here: Usurper, tally: Tally, seed: int, nth: int) -> None:
    sending = _next(here)
    if sending is None:
        await trio.sleep(here.dice.choice((0.1, 2.0, 70.0)))
        return
    before, held, files = await here.status(), dict(here.server.held), here.files()
    path = f"/{sending.verb}" if sending.path is None else sending.path
    answer = await here.send(sending.method, f"/checkpoint/v1{path}", sending.body, sending.token)
    if answer.status_code == 200:
        outcome = "done"
        if sending.path is None:
            _judge_done(here, sending.verb, _fields_of(sending.body), before, answer.json())
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
        tally.fault(sending.way, sending.verb, f"{seed} {nth}", outcome)


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


def _judge_done(here: Usurper, verb: str, sent: dict[str, object], before, reply) -> None:
    phase, epoch = before["phase"], sent.get("epoch", 0)
    holds(2, epoch >= before["epoch"], f"{verb} of epoch {epoch} is carried out in epoch {before['epoch']}")
    same = epoch == before["epoch"]
    if same and verb in MUST_BE and before["operation"] == sent.get("operation"):
        number = 5 if verb in {"retire", "forget"} else 9
        holds(number, phase in MUST_BE[verb], f"{verb} is carried out while {phase}")
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
        for nth in range(STEPS):
            await _step(here, tally, seed, nth)
        if dice.random() < 0.5:
            await here.start(served=False)
            for nth in range(STEPS, STEPS + STEPS // 2):
                await _step(here, tally, seed, nth)
        await trio.sleep(LONGEST_LEASE_S)
        status = await here.status()
        holds(8, status["phase"] == "open", f"it is {status['phase']} when every lease is over")
        holds(8, not here.server.admission.closed, "it lets nobody in when every lease is over")
        nursery.cancel_scope.cancel()
    tally.explored += 1


def controllers_lie(seed: int, tally: Tally) -> None:
    """One life with the lies of this seed. Raises BrokenError."""
    simulated(live, seed, tally)
