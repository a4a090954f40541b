"""A backend of somebody else's behind the model server: asked in its own ways, its streams cut and continued.

Nothing is frozen at a checkpoint: this process reads the streams, so that a cut is a copy of what has come,
and a run that survives its checkpoint is not disturbed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, final

import msgspec
from msgspec import Raw

from triocollect.capture.staging import Staging
from triocollect.config.settings import CutsMode
from triocollect.errors import BusyError, DamageError, PeerError
from triocollect.participant.standing import InThread
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.inference import Cut, Finished, NotCut, Receipt, StagedCut
from triocollect.protocol.values import JsonObject
from triocollect.servers.model.backends.answering import response_of
from triocollect.servers.model.backends.asking import ChatRequest, chat_request
from triocollect.servers.model.backends.continuing import cut_back
from triocollect.servers.model.backends.generated import Generated, Prefix, given_back, staged
from triocollect.servers.model.backends.going_on import order_for, rest
from triocollect.servers.model.backends.known import Known
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.backends.streams import chat, heard
from triocollect.servers.model.backends.ways import Means, Ways, extras_of, fitting, uncuttable
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.upstream import respond

_log: Final = logging.getLogger(__name__)

_NOTHING_YET: Final = "nothing of it has come yet"


class _Live(msgspec.Struct, frozen=True):
    """A call whose answer is being read. `request` None: it cannot be said as a chat, so it cannot go on."""

    answer: Generated
    request: ChatRequest | None


@final
class Backend:
    """The `Source` of a model server in front of an OpenAI-compatible URL. `staging` None: nothing is cut."""

    def __init__(
        self,
        known: Known,
        staging: Staging | None,
        in_thread: InThread,
        *,
        cuts: CutsMode,
    ) -> None:
        self.known: Final = known
        self._staging: Final = staging
        self._in_thread: Final = in_thread
        self._cuts: Final[CutsMode] = cuts
        self._live: Final[dict[str, _Live]] = {}
        self._told = False  # that another policy answers now

    # -- answering ------------------------------------------------------------------------------------------

    async def respond(self, call: Call) -> Answer:
        """The answer to one call. Raises PeerError."""
        line = (await self.known.found()).of(call)
        asked = msgspec.json.decode(call.request, type=dict[str, Raw])
        request = None if call.cut is None else self._as_chat(asked)
        if request is not None and (prefix := await self._kept(call, request)) is not None:
            for means in fitting(line.ways.means, request, prefix, self._cuts):
                answer = await self._continued(call, line, request, prefix, means)
                if answer is not None:
                    body = response_of(asked, answer, call.id)
                    return Answer(body, answer.before, means)
        if line.ways.ask == "responses":
            return await self._by_responses(call, line, asked)
        return await self._by_chat(call, line, asked)

    async def _kept(self, call: Call, request: ChatRequest) -> Prefix | None:
        """What was generated of it before, if that can be read back, and the same policy goes on with it."""
        if self._staging is None or call.cut is None or call.cut.whole:
            return None
        try:
            cut = await self._in_thread(partial(self._staging.fetch, call.cut.key))
        except DamageError as error:
            _log.info("%s", error)
            return None
        if cut.policy != (now := self.known.policy(request)):
            self._tell_of_another(cut.policy, now)
            return None
        return given_back(cut) if cut.request == call.request_sha256 else None

    def _tell_of_another(self, before: str, now: str) -> None:
        """Once: it is so for every call that was cut."""
        if not self._told:
            _log.warning(NOTE + "calls that %s began are generated again, as %s answers now", before, now)
        self._told = True

    async def _continued(
        self, call: Call, line: Line, request: ChatRequest, prefix: Prefix, means: Means
    ) -> Generated | None:
        """The whole answer by this means; None where the backend does not take it, or fails at it.

        A proxy may well answer 500 to a prompt of ids and 200 to a chat, and a call that would succeed
        without its cut must not fail by it. Raises BusyError, and PeerError where a process was lost.
        """
        try:
            order = await order_for(line, means, request, prefix)
            if order is None:
                return None
            answer = Generated(order.prefix, tells=bool(request.get("logprobs")))
            with self._reading(call, answer, request):
                await rest(line, request, order, answer)
        except PeerError as error:
            if error.lost or isinstance(error, BusyError):
                raise
            _log.info("call %s does not go on by %s: %s", call.id, means, error)
            return None
        # A parser that expects reasoning first has taken the rest of the text for it.
        return answer if answer.reasoning == order.prefix.reasoning else None

    async def _by_responses(self, call: Call, line: Line, asked: Mapping[str, Raw]) -> Answer:
        answer = Generated()
        with self._reading(call, answer, self._as_chat(asked) if line.ways.means else None):
            return await respond(
                line.peer, call, line.headers, line.responses, lambda event: answer.add(heard(event))
            )

    async def _by_chat(self, call: Call, line: Line, asked: Mapping[str, Raw]) -> Answer:
        """Asked for token ids and usage too; without them where the backend does not take that here."""
        request = self.known.named(chat_request(asked))
        tells = bool(request.get("logprobs"))
        answer = Generated(tells=tells)
        try:
            await self._chat(call, line, request, extras_of(line.ways, request), answer)
        except PeerError as error:
            if error.passing or answer.tokens:
                raise
            answer = Generated(tells=tells)  # nothing stays of the one that failed
            await self._chat(call, line, request, {}, answer)
        return Answer(response_of(asked, answer, call.id))

    async def _chat(
        self, call: Call, line: Line, request: ChatRequest, more: JsonObject, answer: Generated
    ) -> None:
        with self._reading(call, answer, request):
            await chat(line, line.chat, more | request, answer)

    def _as_chat(self, asked: Mapping[str, Raw]) -> ChatRequest | None:
        try:
            return self.known.named(chat_request(asked))
        except PeerError:
            return None

    @contextmanager
    def _reading(self, call: Call, answer: Generated, request: ChatRequest | None) -> Iterator[None]:
        self._live[call.id] = _Live(answer, request)
        try:
            yield
        finally:
            del self._live[call.id]

    # -- cutting --------------------------------------------------------------------------------------------

    async def cut(self, calls: Sequence[Call], frozen_s: float) -> Receipt:  # noqa: ARG002  # nothing is frozen
        """Stage a copy of what has come of each call. Raises StorageError."""
        if self._staging is None:
            return Receipt(calls=tuple(NotCut(call.id, "cuts are off") for call in calls))
        taken = {call.id: self._cut_of(call) for call in calls}
        cuts = [cut for cut in taken.values() if isinstance(cut, StagedCut)]
        keys = iter(await self._in_thread(partial(self._staging.stage, cuts)))
        return Receipt(
            calls=tuple(
                Cut(name, next(keys), one.tokens) if isinstance(one, StagedCut) else one
                for name, one in taken.items()
            )
        )

    async def thaw(self, calls: Sequence[Call]) -> None:
        """Nothing stands still."""

    def _cut_of(self, call: Call) -> StagedCut | Finished | NotCut:
        live = self._live.get(call.id)
        line = self.known.line
        if live is None or line is None:
            return NotCut(call.id, _NOTHING_YET)
        if live.answer.finish is not None:
            return Finished(call.id)
        prefix = live.answer.prefix()
        if live.request is None:
            return NotCut(call.id, "it cannot be said as a chat")
        if (why := self._why_not(live.request, live.answer, prefix, line.ways)) is not None:
            return NotCut(call.id, why)
        return staged(prefix, call.id, call.request_sha256, self.known.policy(live.request))

    def _why_not(self, request: ChatRequest, answer: Generated, prefix: Prefix, ways: Ways) -> str | None:
        if (why := uncuttable(request) or answer.uncuttable) is not None:
            return why
        fits = fitting(ways.means, request, prefix, self._cuts)
        if not fits:
            return "the backend has no way to go on after it"
        if "token_ids" not in fits and cut_back(prefix) is None:
            return "no token of it can be given back"
        return None
