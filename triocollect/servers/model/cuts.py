"""Generation cuts: what is kept of the calls under way at a checkpoint, and how they go on.

A `Source` is whatever generates behind a model server: the embedded worker, which cuts by itself
(`native.py` beside this), or a backend of somebody else's, whose stream this process reads. At the closing
`Cuts` hands it the calls that it has; it answers one `Receipt`, in which every call is once, with a `Cut`
for those whose prefix it has staged (`capture/staging.py`; `Staging.stage` blocks, so in a thread). Calls
that are decoded under a constraint are not among them, nor those whose answer is here already: `Cuts` stages
these whole. Only the export waits for it, since what is staged takes two syncs, in which others can be at
work; and not for long: a source that is slow, raises, or tells what is not so has not cut, and its calls are
generated again.

A call that goes on from a cut has it in `call.cut`: `respond` gets it like any other, `Staging.fetch` gives
what was staged (DamageError: generate from the start), and the `Answer` says at which token and by which
means it was continued. The answer is the whole Response, prefix and all, and its usage counts all of it.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, final

import msgspec
import trio
from msgspec import Raw

from triocollect.capture.staging import Staging
from triocollect.errors import TriocollectError
from triocollect.participant.standing import InThread
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.inference import Cut, Finished, NotCut, Outcome, Receipt, StagedCut, accounted
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.answers import said_in
from triocollect.servers.model.calls import Answer, Call, Calls
from triocollect.servers.model.filed import FiledCut

_log: Final = logging.getLogger("triocollect.servers")

THAW_EVERY_S: Final = 1.0


class Source(Protocol):
    """What generates the answers to calls, and may be able to cut them."""

    async def respond(self, call: Call) -> Answer:
        """The answer to one call. Raises PeerError."""
        ...

    async def cut(self, calls: Sequence[Call], frozen_s: float) -> Receipt:
        """Stage what is generated of each call by now; what stands still for that does so for `frozen_s`.

        Raises PeerError. May be cancelled.
        """
        ...

    async def thaw(self, calls: Sequence[Call]) -> None:
        """The checkpoint is over, whatever came of it: what stands still goes on. Raises PeerError."""


class _Limit(msgspec.Struct, frozen=True):
    max_output_tokens: int | None = None


@final
class Cuts:
    """The cuts of the checkpoint that is open.

    Its work lives in `tasks`, the nursery of the application's lifespan; without one nothing is cut.
    """

    def __init__(self, calls: Calls, source: Source, staging: Staging, in_thread: InThread) -> None:
        self.tasks: trio.Nursery | None = None
        self._calls: Final = calls
        self._source: Final = source
        self._staging: Final = staging
        self._in_thread: Final = in_thread
        self._one_at_a_time: Final = trio.Lock()  # a thaw is over before the next freeze begins
        self._taken: dict[str, FiledCut] = {}
        self._settled = trio.Event()  # nothing more comes to `_taken`
        self._settled.set()
        self._frozen: Sequence[Call] = ()
        self._frozen_until = 0.0
        self._told = ""  # the last thing that went wrong

    def of(self, call: Call) -> FiledCut | None:
        """What is kept of a call: its cut, or the one that it goes on from."""
        return self._taken.get(call.id, call.cut)

    def close(self, frozen_s: float, patience_s: float) -> None:
        """A checkpoint begins: cut everything that is under way."""
        self._taken = {}
        calls = [call for call in self._calls.serving.values() if not call.constrained]
        if self.tasks is None or not calls:
            return
        self._settled = trio.Event()
        self._frozen = [call for call in calls if call.id not in self._calls.answers]
        self._frozen_until = trio.current_time() + frozen_s
        self.tasks.start_soon(self._cut, self._taken, calls, self._frozen, frozen_s, patience_s)

    def open(self) -> None:
        """It is over: everything goes on."""
        if self.tasks is not None and self._frozen:
            self.tasks.start_soon(self._thaw, self._frozen, self._frozen_until)
        self._taken, self._frozen = {}, ()
        self._settled.set()

    async def settled(self) -> None:
        """Return when all that will be kept of this checkpoint's calls is, or it is over."""
        await self._settled.wait()

    # -- taking them ----------------------------------------------------------------------------------------

    async def _cut(
        self,
        taken: dict[str, FiledCut],
        calls: Sequence[Call],
        generating: Sequence[Call],
        frozen_s: float,
        patience_s: float,
    ) -> None:
        with trio.move_on_after(patience_s):
            async with trio.open_nursery() as both:
                both.start_soon(self._quietly, partial(self._keep_whole, taken, calls))
                if generating:
                    both.start_soon(self._quietly, partial(self._ask, taken, generating, frozen_s))
        if taken:
            self._told = ""  # some could be kept, so what goes wrong next is news
        if taken is self._taken:  # else another checkpoint has begun
            self._settled.set()

    async def _quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        """Whatever fails: those calls are not cut, and nothing else comes of it."""
        try:
            await work()
        except TriocollectError as error:
            self._tell(str(error))
        except Exception as error:  # noqa: BLE001  # a cut must not end the server
            self._tell(f"{type(error).__name__}: {error}")

    def _tell(self, why: str) -> None:
        """A disk that is full is so at each checkpoint."""
        if why != self._told:
            _log.warning(NOTE + "calls under way will be generated again: %s", why)
        self._told = why

    async def _ask(self, taken: dict[str, FiledCut], calls: Sequence[Call], frozen_s: float) -> None:
        async with self._one_at_a_time:
            if taken is not self._taken:
                return  # it is over, and its thaw was here first: nobody would thaw these
            receipt = await self._source.cut(calls, frozen_s)
        told = accounted([call.id for call in calls], receipt)
        taken.update(await self._in_thread(partial(self._checked, calls, told)))
        await self._keep_as_they_come(taken, [call for call in calls if isinstance(told[call.id], Finished)])

    def _checked(self, calls: Sequence[Call], told: Mapping[str, Outcome]) -> dict[str, FiledCut]:
        """The cuts that are what the receipt says. Blocks."""
        checked, faults = dict[str, FiledCut](), list[str]()
        for call in calls:
            outcome = told[call.id]
            if isinstance(outcome, NotCut):
                faults.append(outcome.why)
            elif isinstance(outcome, Cut):
                if (fault := self._fault(call, outcome)) is None:
                    checked[call.id] = _filed(call, outcome.key, outcome.tokens, whole=False)
                else:
                    faults.append(fault)
        if faults:
            _log.info("%d calls are not cut, as: %s", len(faults), faults[0])
        return checked

    def _fault(self, call: Call, cut: Cut) -> str | None:
        try:
            staged = self._staging.fetch(cut.key)
        except TriocollectError as error:
            return str(error)
        if (staged.call_id, staged.tokens) != (call.id, cut.tokens):
            return f"{cut.key} is the cut of another call, or at another token"
        if (most := _most_tokens(call)) is not None and cut.tokens > most:
            return f"{cut.key} has {cut.tokens} tokens, more than the {most} that were asked for"
        return None

    async def _keep_as_they_come(self, taken: dict[str, FiledCut], calls: Sequence[Call]) -> None:
        """Those that are here together share a pack; one that is late costs none of the others."""
        coming = {call.id: call for call in calls}
        while coming:
            here = await self._calls.settled(coming)
            await self._keep_whole(taken, [coming.pop(name) for name in here])

    async def _keep_whole(self, taken: dict[str, FiledCut], calls: Sequence[Call]) -> None:
        """Stage the answers that are here and held."""
        answers = self._calls.answers
        held = [_whole(call, answers[call.id].body) for call in calls if call.id in answers]
        staged = [cut for cut in held if cut is not None]
        keys = await self._in_thread(partial(self._staging.stage, staged))
        named = {call.id: call for call in calls}
        for cut, key in zip(staged, keys, strict=True):
            taken[cut.call_id] = _filed(named[cut.call_id], key, cut.tokens, whole=True)

    # -- going on -------------------------------------------------------------------------------------------

    async def _thaw(self, calls: Sequence[Call], until: float) -> None:
        """Until it is heard, or every freeze has ended by itself."""
        with trio.move_on_at(until):
            async with self._one_at_a_time:
                while True:
                    try:
                        await self._source.thaw(calls)
                    except TriocollectError:
                        await trio.sleep(THAW_EVERY_S)
                    except Exception as error:  # noqa: BLE001  # as for a cut: they go on by themselves
                        _log.warning("calls stand still for a while: %s: %s", type(error).__name__, error)
                        return
                    else:
                        return


def _most_tokens(call: Call) -> int | None:
    """The limit that was asked for; None where there is none, or only the worker understands it."""
    try:
        return msgspec.json.decode(call.request, type=_Limit, strict=False).max_output_tokens
    except NOT_JSON:
        return None


def _filed(call: Call, key: str, tokens: int, *, whole: bool) -> FiledCut:
    return FiledCut(
        request_sha256=call.request_sha256, parent=call.parent, key=key, tokens=tokens, whole=whole
    )


def _whole(call: Call, body: bytes) -> StagedCut | None:
    if (said := said_in(body)) is None:
        return None  # whatever it is, it is none that could be read back
    tokens = (said.usage and said.usage.output_tokens) or 0
    return StagedCut(
        call_id=call.id, request=call.request_sha256, policy="", tokens=tokens, response=Raw(body)
    )
