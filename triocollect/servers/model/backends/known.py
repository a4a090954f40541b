"""What is known of one backend: found at the start or, where it is not up yet, by the first call."""

import logging
from collections.abc import Mapping
from typing import Final, final

import trio
from attrs import evolve
from msgspec.structs import replace

from triocollect.config.settings import CutsMode
from triocollect.errors import BusyError, PeerError
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.values import JsonObject
from triocollect.servers.model.backends.asking import ChatRequest
from triocollect.servers.model.backends.generated import Generated, Prefix
from triocollect.servers.model.backends.going_on import order_for, rest
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.backends.probe import QUESTION, Probe
from triocollect.servers.model.backends.streams import chat
from triocollect.servers.model.backends.ways import Means, decide, in_words
from triocollect.servers.peers import Peer

START_S: Final = 120.0  # that a backend may take to come up before only calls ask for it
AGAIN_S: Final = 0.5
_TOKENS: Final = 12  # of the answer that is generated whole and in two parts
_HALF: Final = 5

_log: Final = logging.getLogger(__name__)
_log.setLevel(logging.INFO)  # one line a start, where everything else is silent about what goes well


@final
class Known:
    """One backend. `model`: as it is to be called, if that was said."""

    def __init__(
        self, peer: Peer, url: str, headers: Mapping[str, str], model: str | None, cuts: CutsMode
    ) -> None:
        self._peer: Final = peer
        self._url: Final = url
        self._headers: Final = headers
        self._model: Final = model
        self._cuts: Final[CutsMode] = cuts
        self._one_at_a_time: Final = trio.Lock()
        self._failed: PeerError | None = None  # what the latest call heard that asked in vain
        self.line: Line | None = None

    async def start(self) -> None:
        """Ask it from the start of the server on, beside everything else, until it answers or for a while.

        Calls wait for that: they would only fail.
        """
        fault = ""
        with trio.move_on_after(START_S):
            async with self._one_at_a_time:
                while self.line is None:
                    try:
                        self.line = await self._find()
                    except PeerError as error:
                        if str(error) != fault:
                            fault = str(error)
                            _log.info(NOTE + "%s; it is asked again for %g s, and calls wait", fault, START_S)
                        await trio.sleep(AGAIN_S)

    async def found(self) -> Line:
        """How it is reached, and by which ways. Raises PeerError where it cannot be asked.

        Who waited while it was asked in vain shares what came of that: in turn, the last would wait for all.
        """
        failed = self._failed
        async with self._one_at_a_time:
            if self.line is None and self._failed is not None and self._failed is not failed:
                raise _the_same(self._failed)
            if self.line is None:
                try:
                    self.line = await self._find()
                except PeerError as error:
                    self._failed = error
                    raise
        return self.line

    async def _find(self) -> Line:
        """Raises PeerError: also for what nobody foresaw in an answer, which must not end the server."""
        try:
            line = await self._probed()
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            said = f"{self._peer.name} answered what cannot be read: {type(error).__name__}: {error}"
            raise PeerError(said, passing=False) from error
        _log.info(NOTE + "%s %s", self._peer.name, in_words(line.seen, line.ways, self._cuts))
        return line

    async def _probed(self) -> Line:
        seen = await Probe(self._peer, self._url, self._headers, self._model).findings()
        line = Line(self._peer, self._headers, seen, decide(seen, "on"))
        if self._cuts == "exact":
            same = [means for means in line.ways.means if await self._is_exact(line, means)]
            seen = replace(seen, exact=tuple(same))
        return evolve(line, seen=seen, ways=decide(seen, self._cuts))

    def named(self, request: ChatRequest) -> ChatRequest:
        """A request that says which model, where the backend may want to hear one."""
        served = None if self.line is None else self.line.seen.model
        return request if request.get("model") or served is None else request | {"model": served}

    def policy(self, request: ChatRequest) -> str:
        """What answers such a request: the model that it names and, where that is another, what is served."""
        served = None if self.line is None else self.line.seen.model
        called = str(request.get("model") or served or "a model without a name")
        listed = () if self.line is None else self.line.seen.models
        return f"{called} of {served}" if listed and called not in listed else called

    async def _is_exact(self, line: Line, means: Means) -> bool:
        """Whether a short greedy answer is the same whole and continued."""
        asked: JsonObject = {"messages": [QUESTION], "max_tokens": _TOKENS, "temperature": 0}
        called = self._model or line.seen.model
        request = asked if called is None else asked | {"model": called}
        whole, cut = Generated(), list[Prefix]()

        def note() -> bool:
            if not cut and whole.tokens >= _HALF and whole.uncuttable is None:
                cut.append(whole.prefix())
            return False

        try:
            await chat(line, line.chat, line.ways.extras | request, whole, note)
            order = await order_for(line, means, request, cut[0]) if cut else None
            if order is None:
                return False
            again = Generated(order.prefix)
            await rest(line, request, order, again)
        except PeerError:
            return False
        return (again.text, again.finish) == (whole.text, whole.finish)


def _the_same(error: PeerError) -> PeerError:
    """For somebody else: an exception that is raised twice has two histories."""
    if isinstance(error, BusyError):
        return BusyError(str(error), after_s=error.after_s)
    return PeerError(str(error), passing=error.passing)
