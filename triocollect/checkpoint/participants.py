"""One participant of a run as the controller sees it: the calls it is sent, and what it may answer."""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import msgspec
import trio

from triocollect.checkpoint.line import ControlClient, Line, StrangeError, is_passing
from triocollect.errors import ControlError
from triocollect.protocol.messages import Answer, Call, Capabilities, Kind, Seen, Status
from triocollect.protocol.refusals import Code
from triocollect.telemetry import count, span

LEAST_BUDGET_MS: Final = 1000
_CODES: Final = frozenset(Code)
LONGEST_S: Final = 86_400.0  # of a budget; every call has a deadline above it, this is for one without
_PAUSES_S: Final = (0.2, 1.0)  # between the tries of a call that nobody answered

A = TypeVar("A", bound=Answer)
T = TypeVar("T")


def budget_ms() -> int:
    """What is left for a call, less a tenth, so that its answer comes while the caller still listens."""
    left_s = (
        trio.current_effective_deadline() - trio.current_time()
    )  # -inf where a cancellation is on its way
    return max(LEAST_BUDGET_MS, int(min(max(left_s, 0.0), LONGEST_S) * 900))


class Participant:
    """A server that takes part: its calls, and the boot that its latest reply named.

    `restarted` hears, at once, of a reply with another boot than the one before.
    """

    def __init__(self, client: ControlClient, url: str, capabilities: Capabilities) -> None:
        self.url: Final = url
        self.kind: Final[Kind] = capabilities.kind
        self.instance: Final = capabilities.instance
        self.boot = capabilities.boot
        self.restarted: Callable[[str], None] = _nobody
        self.lease_until = -math.inf  # monotonic seconds; of calls that it took up as they came
        self._line: Final = Line(client, url, str(self))

    def __str__(self) -> str:
        return f"{self.kind} {self.instance} at {self.url}"

    def fault(self, what: str) -> ControlError:
        """What to raise when its answer is not what was asked for."""
        return ControlError(what, participant=str(self))

    async def status(self) -> Status:
        """GET status. Raises ControlError."""
        return await self._ask("status", None, Status)

    async def place(self) -> Seen | None:
        """GET place; None where it does not tell. Raises ControlError where it does not answer."""
        try:
            return await self._ask("place", None, Seen)
        except ControlError as error:
            if isinstance(error, StrangeError) or error.code is Code.BAD_REQUEST:
                return None  # it knows no such route
            raise

    async def post(self, route: str, call: Call, reply: type[A]) -> A:
        """POST a call; its budget is what is left until the caller's deadline. Raises ControlError.

        A call that brought no answer is repeated twice: every call may be, its answer is replayed.
        """
        with span(f"control.{route}", "client", kind=self.kind, instance=self.instance):
            return await self._ask(route, call, reply)

    async def _ask(self, route: str, call: Call | None, reply: type[A]) -> A:
        for pause_s in _PAUSES_S:
            try:
                return await self._ask_once(route, call, reply)
            except ControlError as error:
                if not is_passing(error):
                    raise
            await trio.sleep(pause_s)
        return await self._ask_once(route, call, reply)

    async def _ask_once(self, route: str, call: Call | None, reply: type[A]) -> A:
        body = None
        if call is not None:
            call = msgspec.structs.replace(call, budget_ms=budget_ms())
            lease_s = (call.budget_ms + call.lease_ms) / 1000
            self.lease_until = max(self.lease_until, trio.current_time() + lease_s)
            body = msgspec.json.encode(call)
        try:
            answer = await self._line.ask(route, body, reply)
        except ControlError as error:
            if error.code in _CODES:  # a word of its own would make a metric endless
                count("refusals", code=error.code)
            raise
        if answer.boot != self.boot:
            self.boot = answer.boot
            self.restarted(f"{self} restarted")
        return answer


async def each(
    participants: Iterable[Participant], ask: Callable[[Participant], Awaitable[T]]
) -> dict[Participant, T]:
    """Ask all at once. The first ControlError gives the others up and is raised."""
    answers, faults = await settle(participants, ask, give_up=True)
    for fault in faults.values():
        raise fault
    return answers


async def settle(
    participants: Iterable[Participant],
    ask: Callable[[Participant], Awaitable[T]],
    *,
    give_up: bool = False,
) -> tuple[dict[Participant, T], dict[Participant, ControlError]]:
    """Ask all at once: (answers, what went wrong). `give_up`: the first that goes wrong ends the others."""
    answers: dict[Participant, T] = {}
    faults: dict[Participant, ControlError] = {}

    async def one(participant: Participant) -> None:
        try:
            answers[participant] = await ask(participant)
        except ControlError as fault:
            faults[participant] = fault
            if give_up:
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for participant in participants:
            nursery.start_soon(one, participant)
    return answers, faults


def _nobody(_why: str) -> None:
    """Nobody listens."""
