"""The client of control calls, and a server that answers with any bytes: an answer, or an error in words."""

import functools
import random
from collections.abc import Iterator
from typing import Final

import msgspec
import trio

from fuzz.descriptors import open_files
from fuzz.invariants import holds
from fuzz.peers.http import FAULTS, NONE, RESULT, FaultyServer
from fuzz.peers.life import over_sockets
from fuzz.tally import Tally
from triocollect.checkpoint.discovery import Candidate, control_client, discover
from triocollect.checkpoint.line import Line
from triocollect.errors import ControlError, UsageError
from triocollect.protocol.messages import Answer, Capabilities, Greeted, Hello, Status

PATIENCE_S: Final = 5.0
LONGEST_S: Final = 120.0
TAKES_NO_PART: Final = {"404"}  # a server without the routes, which is no problem
AT_ONCE: Final = 40
STATUS: Final = Status(
    boot="b", phase="open", operation=None, epoch=1, lease_expires=None, report=None, restored_pending=0,
    served=False,
)  # fmt: skip
CAPABILITIES: Final = Capabilities(boot="b", kind="environment", instance="one", mode="exported")
GREETED: Final = Greeted(boot="b", phase="open")
HELLO: Final = msgspec.json.encode(Hello(run="r", epoch=1, operation=0, budget_ms=1000))


async def ask_all(seed: int, tally: Tally) -> None:
    """Every fault is met by a GET and by a POST, in an order of this seed."""
    dice, names = random.Random(seed), list(FAULTS)
    dice.shuffle(names)
    with trio.move_on_after(LONGEST_S) as patience:
        for some in _batches(names):
            async with trio.open_nursery() as asking:
                for name in some:
                    asking.start_soon(_ask, name, tally)
        await _discover([*dice.sample(names, 6), NONE])
    holds(14, not patience.cancelled_caught, f"control calls had not ended after {LONGEST_S:.0f} s")


def _batches(names: list[str]) -> Iterator[list[str]]:
    return (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE))


def _server(name: str) -> FaultyServer:
    def choose(first: bytes, _body: bytes) -> tuple[str, bytes]:
        read = STATUS if b"/status " in first else CAPABILITIES
        return name, msgspec.json.encode(read if first.startswith(b"GET") else GREETED)

    return FaultyServer(choose, lambda: None if FAULTS[name].reads else name)


async def _listening(serving: trio.Nursery, server: FaultyServer) -> str:
    listen = functools.partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1")
    (listener,) = await serving.start(listen)
    return f"http://127.0.0.1:{listener.socket.getsockname()[1]}"


async def _ask(name: str, tally: Tally) -> None:
    async with trio.open_nursery() as serving, control_client("token") as client:
        line = Line(client, await _listening(serving, _server(name)), "the participant")
        for nth in range(2):  # the second on the connection of the first, where that was kept
            for route, body, good in (("status", None, STATUS), ("hello", HELLO, GREETED)):
                outcome = "silent"
                with trio.move_on_after(PATIENCE_S):
                    outcome = await _outcome(line, route, body, good)
                fine = outcome != "answered" or RESULT in FAULTS[name].endings
                holds("protocol", fine, f"{name}: what answered {route} was taken for an answer")
                if name == NONE:
                    holds("protocol", outcome == "answered", f"a good answer to {route} was {outcome}")
                else:
                    tally.fault(name, f"control {route} {nth}", "", outcome)
        serving.cancel_scope.cancel()


async def _outcome(line: Line, route: str, body: bytes | None, good: Answer) -> str:
    try:
        answer = await line.ask(route, body, type(good))
    except ControlError as error:
        holds("words", str(error).startswith(f"{line.who}: "), f"an error that names nobody: {error}")
        return "refused in words"
    holds("protocol", answer == good, f"an answer that nobody gave: {answer}")
    return "answered"


async def _discover(names: list[str]) -> None:
    """All of them at once: either they take part, or the user is told of each that cannot be asked."""
    async with trio.open_nursery() as serving, control_client("token") as client:
        asked = {await _listening(serving, _server(name)): name for name in names}
        told = ""
        try:
            await discover(client, [Candidate(url) for url in asked], patience_s=PATIENCE_S)
        except UsageError as error:
            told = str(error)
        for url, name in asked.items():
            if name == NONE:
                holds("words", url not in told, f"a server that answers well is told of: {told}")
            elif name not in TAKES_NO_PART and RESULT not in FAULTS[name].endings:
                holds("words", url in told, f"nothing is told of {url}, which met {name!r}: {told}")
        serving.cancel_scope.cancel()


def control_meets_http(seed: int, tally: Tally) -> None:
    """All faults once, in an order of this seed. Raises BrokenError."""
    before = open_files()
    over_sockets(ask_all, seed, tally)
    holds(16, open_files() == before, f"{open_files() - before} descriptors are left open")
    tally.explored += 1
