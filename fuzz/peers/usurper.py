"""What a lying controller sends: calls out of turn, of other runs and epochs, with paths that lead away.

Wrong tokens, wrong methods and bodies that are nothing; between them rightful calls, so that there is
something to do harm to.
"""

import json
import random
from pathlib import Path
from typing import Final

import httpx
from attrs import frozen

from fuzz.files.harms import HARMS
from fuzz.invariants import holds
from fuzz.peers.lies import KEYS
from tests.checkpoint.network import TOKEN, Network
from tests.checkpoint.server import Server
from triocollect.protocol.ids import EpisodeId

VERBS: Final = ("hello", "prepare", "commit", "resume", "restore", "retire", "forget")
WAYS: Final = (*["rightful"] * 3, *["untrue"] * 2, "nonsense", "wrong token", "wrong method", "time")
PATHS: Final = ("", "/", "/prepare/", "/x", "/status", "//commit")
IN_TURN: Final = {"open": "prepare", "prepared": "commit", "committed": "resume"}
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

    def told(self, phase: str) -> str:
        """What tells it from others, to a participant in this phase."""
        return f"{phase} {self.method} {self.path} {self.token} {self.body!r}"


def next_of(here: Usurper) -> Sending | None:
    """What is sent next; None: time passes."""
    dice, way = here.dice, here.dice.choice(WAYS)
    in_turn = IN_TURN.get(here.phase)
    verb = in_turn if in_turn is not None and dice.random() < 0.5 else dice.choice(VERBS)
    if way == "rightful" and dice.random() < 0.1:
        here.epoch, here.operation = here.epoch + 1, 0
    sent = here.rightful(verb)
    true = body = json.dumps(sent).encode()
    match way:
        case "time":
            return None
        case "untrue":
            body = json.dumps(here.untrue(sent)).encode()
        case "nonsense":
            body = HARMS[dice.choice(list(HARMS))](dice, body)
        case "wrong token":
            return Sending(way, verb, body, token=dice.choice(TOKENS))
        case "wrong method":
            method, path = dice.choice(("GET", "PUT", "DELETE", "PATCH", "POST")), dice.choice(PATHS)
            asks = (method, path) == ("GET", "/status")
            return Sending("rightful" if asks else way, verb, body, method=method, path=path)
        case _:
            pass
    return Sending("rightful" if body == true else way, verb, body)
