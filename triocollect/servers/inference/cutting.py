"""How the scripted worker cuts the calls that it has, and goes on after a cut.

A call that a freeze names and that comes only after it stands from its first token on: it was on its way.
"""

import logging
from collections import deque
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, final

import trio

from triocollect.capture.staging import Staging
from triocollect.errors import DamageError, StorageError
from triocollect.participant.standing import InThread
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.inference import Cut, Finished, Inventory, NotCut, Outcome, Receipt, StagedCut
from triocollect.servers.inference.generation import Generation

_log: Final = logging.getLogger("triocollect.servers")

POLICY: Final = "scripted-1"  # the script; another one would say other words

_MS: Final = 1000
_THAWED_KEPT: Final = 256
_FINISHED_KEPT: Final = 16_384


class Running(NamedTuple):
    """A call being generated: `request` is the digest of what was asked, `tokens` are the whole answer's."""

    request: str
    tokens: tuple[str, ...]
    generation: Generation


class _Freeze(NamedTuple):
    calls: frozenset[str]
    until: float


@final
class Cutter:
    """The calls that have a name, and who stands still. Without a `staging` nothing is cut or continued."""

    def __init__(self, staging: Staging | None, in_thread: InThread) -> None:
        self._staging: Final = staging
        self._in_thread: Final = in_thread
        self._running: Final[dict[str, Running]] = {}
        self._finished: Final[deque[str]] = deque(maxlen=_FINISHED_KEPT)  # their answers may be on the wire
        self._freezes: dict[str, _Freeze] = {}
        self._thawed: Final[deque[str]] = deque(maxlen=_THAWED_KEPT)  # whose freeze may come yet
        self._told = ""  # the last thing that went wrong

    @contextmanager
    def knowing(self, call_id: str | None, running: Running) -> Iterator[None]:
        """While it is being generated. A call without a name is nobody's to cut."""
        if call_id is None:
            yield
            return
        for freeze in self._freezes.values():
            if call_id in freeze.calls:
                running.generation.freeze(freeze.until)
        self._running[call_id] = running
        try:
            yield
        finally:
            if self._running.get(call_id) is running:
                del self._running[call_id]
            if running.generation.finished:
                self._finished.append(call_id)

    async def cut(self, inventory: Inventory) -> Receipt:
        """Freeze and stage; each call of the inventory is in the receipt once."""
        calls = tuple(dict.fromkeys(inventory.calls))
        if self._staging is None:
            return _none(calls, "this worker has no folder to stage in")
        if inventory.freeze in self._thawed:
            return _none(calls, "it is thawed already")
        now = trio.current_time()
        until = now + inventory.frozen_ms / _MS
        self._freezes = {name: one for name, one in self._freezes.items() if one.until > now}
        self._freezes[inventory.freeze] = _Freeze(frozenset(calls), until)
        finished = frozenset(self._finished)
        outcomes = {call: self._frozen(call, until, finished) for call in calls}
        staged = [one for one in outcomes.values() if isinstance(one, StagedCut)]
        try:
            keys = await self._in_thread(partial(self._staging.stage, staged))
        except StorageError as error:
            self._tell(str(error))
            return _none(calls, str(error))
        self._told = ""
        named = {cut.call_id: key for cut, key in zip(staged, keys, strict=True)}
        return Receipt(
            calls=tuple(
                Cut(call, named[call], one.tokens) if isinstance(one, StagedCut) else one
                for call, one in outcomes.items()
            )
        )

    def _tell(self, why: str) -> None:
        """Whoever asked has a reason for each call, and most of those are as they should be: this is not."""
        if why != self._told:
            _log.warning(NOTE + "calls under way are not kept, and will be generated again: %s", why)
        self._told = why

    def _frozen(self, call_id: str, until: float, finished: Container[str]) -> StagedCut | Finished | NotCut:
        """Make it stand; what there is of it. One whose answer was lost may be here a second time."""
        if (running := self._running.get(call_id)) is None:
            return Finished(call_id) if call_id in finished else NotCut(call_id, "it is not here")
        if running.generation.finished:
            return Finished(call_id)
        running.generation.freeze(until)
        there = running.generation.there
        if not there:
            return NotCut(call_id, "it has no token yet")
        return StagedCut(
            call_id=call_id,
            request=running.request,
            policy=POLICY,
            tokens=there,
            text="".join(running.tokens[:there]),
            logprobs=(0.0,) * there,  # the script is sure of its words
        )

    def thaw(self, inventory: Inventory) -> None:
        """Let these go on, and any that come yet."""
        self._thawed.append(inventory.freeze)
        self._freezes.pop(inventory.freeze, None)
        for call in inventory.calls:
            if (running := self._running.get(call)) is not None:
                running.generation.thaw()

    async def given(self, key: str, request: str, tokens: tuple[str, ...]) -> int:
        """How many tokens of this answer are staged under the key; 0 where it is a cut of something else."""
        if self._staging is None:
            return 0
        try:
            cut = await self._in_thread(partial(self._staging.fetch, key))
        except DamageError:
            return 0
        begins_so = cut.tokens <= len(tokens) and cut.text == "".join(tokens[: cut.tokens])
        return cut.tokens if begins_so and (cut.request, cut.policy) == (request, POLICY) else 0


def _none(calls: tuple[str, ...], why: str) -> Receipt:
    outcomes: tuple[Outcome, ...] = tuple(NotCut(call, why) for call in calls)
    return Receipt(calls=outcomes)
