"""Every control call, from what it means to its answer.

A question and what follows from it are one step of the event loop. What may outlast a call is an `Errand`, so
a passed deadline ends the call and nothing else.
"""

import os
from functools import partial
from typing import Final, Generic, final

import anyio

from triocollect.participant.cutting import commit, prepare
from triocollect.participant.errands import Errand
from triocollect.participant.hooks import R
from triocollect.participant.installing import restore
from triocollect.participant.operations import Act, EndOlderThenAct, Later, Refuse, Replay
from triocollect.participant.standing import Standing
from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import (
    Answer,
    Call,
    Capabilities,
    Commit,
    Forget,
    Forgotten,
    Greeted,
    Hello,
    Prepare,
    Restore,
    Resume,
    Resumed,
    Retire,
    Retired,
    Seen,
    Status,
)
from triocollect.protocol.phases import Event, Phase
from triocollect.protocol.refusals import Code

_MS: Final = 1000.0
_FRESH_S: Final = (
    1.0  # that a status waits for what other processes say now; then the latest they said counts
)
_LATE: Final = Refuse(
    Code.DEADLINE_EXCEEDED, "the budget is used up; what was begun goes on, and a repeat waits for it"
)
_REPORTING: Final = frozenset({Phase.PREPARING, Phase.PREPARED, Phase.COMMITTING, Phase.COMMITTED})


@final
class Calls(Generic[R]):
    """The control calls of one participant, whoever carries them."""

    def __init__(self, standing: Standing[R]) -> None:
        self.standing: Final = standing
        self._retires: Final[dict[frozenset[EpisodeId], Errand[Retired]]] = {}
        self._unclean = False  # an earlier run's state is still here, wholly or in part
        self._clearing: Errand[None] | None = None

    async def answer(self, call: Call, arrival: float) -> Answer | Refuse:
        """Carry out a call that arrived at `arrival` (seconds of `anyio.current_time`) within its budget."""
        deadline = arrival + call.budget_ms / _MS
        is_judged = False
        with anyio.CancelScope(deadline=deadline):
            verdict = await self._verdict(call)
            is_judged = True
            if isinstance(verdict, Refuse):
                return verdict
            self.standing.heard(call, arrival)
            if isinstance(verdict, Replay):
                return verdict.answer
            if not isinstance(call, Prepare):
                return await self._act(call, arrival)
        if is_judged and isinstance(call, Prepare):
            return await prepare(self.standing, call, arrival)  # answers in time by itself
        return _LATE

    async def _verdict(self, call: Call) -> Act | Replay | Refuse:
        standing = self.standing
        while True:
            standing.expire()
            refused = standing.operations.meet(call, live=standing.hooks.live())
            if refused is not None:
                return refused
            if standing.operations.is_new(call):
                self._take_over(call)
            if standing.phase is Phase.RESTORING and standing.unwanted:
                await self._install_ended()
                continue
            if self._unclean:
                if (failed := await self._cleared()) is not None:
                    return failed
                continue
            match standing.operations.judge(call, standing.phase):
                case EndOlderThenAct(event):
                    standing.end(event)
                case Later():
                    await self._install_ended()
                case verdict:
                    return verdict

    def _take_over(self, call: Call) -> None:
        standing = self.standing
        standing.end(Event.HIGHER_EPOCH)
        other = standing.operations.take_over(call)
        standing.admission.meet(Sender(call.run, call.epoch))
        standing.admission.attendance.begin()
        if other:
            standing.admission.marks.clear()
            self._unclean = True

    async def _cleared(self) -> Refuse | None:
        """Wait until nothing of an earlier run is left; a clearing that failed is begun again."""
        if self._clearing is None or self._clearing.done:
            self._clearing = self.standing.errand(self._clear)
        return await self._clearing.result()

    async def _clear(self) -> None:
        await self.standing.hooks.clear()
        self._unclean = False

    async def _install_ended(self) -> None:
        assert self.standing.install is not None
        await self.standing.install.result()

    async def _act(self, call: Call, arrival: float) -> Answer | Refuse:
        match call:
            case Hello():
                await self.standing.hooks.in_force()
                return Greeted(boot=self.standing.boot, phase=self.standing.phase.value)
            case Commit():
                return await commit(self.standing, call)
            case Restore():
                return await restore(self.standing, call, arrival)
            case Resume():
                return await self._resume(call)
            case Retire():
                return await self._retire(call)
            case Forget():
                return await self._forget(call)
            case _:
                raise AssertionError(call)

    async def _resume(self, call: Resume) -> Resumed:
        """Open at once; answer when no file of the operation can appear any more."""
        standing = self.standing
        current = standing.operations.current
        if current is not None and call.operation >= current:
            standing.end(Event.RESUME)
        standing.operations.end(call.operation)
        for write in standing.writes_under_way():
            await write.result()
        if standing.phase is Phase.RESTORING and standing.unwanted:
            await self._install_ended()
        await standing.hooks.in_force()
        return Resumed(boot=standing.boot, phase=standing.phase.value)

    async def _retire(self, call: Retire) -> Retired | Refuse:
        """Mark, then stop; a repeat waits for the stop that is under way."""
        standing = self.standing
        standing.operations.begin(call)
        standing.admission.marks.retire(call.episodes)
        episodes = frozenset(call.episodes)
        errand = self._retires.get(episodes)
        if errand is None:
            errand = self._retires[episodes] = standing.errand(partial(self._stop, call, episodes))
        return await errand.result()

    async def _stop(self, call: Retire, episodes: frozenset[EpisodeId]) -> Retired:
        try:
            await self.standing.hooks.stop(call.episodes)
        finally:
            del self._retires[episodes]
        return Retired(
            boot=self.standing.boot, retired=tuple(episode.capture_key for episode in call.episodes)
        )

    async def _forget(self, call: Forget) -> Forgotten | Refuse:
        hooks = self.standing.hooks
        self.standing.operations.begin(call)
        hooks.forget(call.rollout_ids)
        self.standing.admission.marks.forget(call.rollout_ids)
        if call.goodbye:
            self.standing.admission.goodbye()
            self.standing.admission.attendance.end()
        await hooks.in_force()
        if call.goodbye and not hooks.live():  # a session whose end never arrived is named by nobody
            self._unclean = True
            if (failed := await self._cleared()) is not None:
                return failed
        return Forgotten(boot=self.standing.boot, forgotten=call.rollout_ids)

    async def brought_up_to_date(self) -> None:
        """Return when other processes have said where they are; for a status, which cannot wait for long."""
        with anyio.move_on_after(_FRESH_S):
            await self.standing.hooks.in_force()

    def status(self) -> Status:
        """GET status: where things stand, a lease that is over noticed."""
        standing = self.standing
        standing.expire()
        standing.admission.attendance.asked()
        closed = standing.phase is not Phase.OPEN
        reporting = standing.phase in _REPORTING
        return Status(
            boot=standing.boot,
            phase=standing.phase.value,
            operation=standing.operations.current if closed else None,
            epoch=standing.operations.epoch,
            lease_expires=standing.admission.lease.left_ms() if closed else None,
            report=standing.report() if reporting else None,
            restored_pending=standing.hooks.restored_pending(),
            served=standing.hooks.served(),
            needed=standing.admission.attendance.needed,
        )

    async def place(self) -> Seen:
        """GET place: paths may be equal and the places not, or the other way round. Obeys nobody by it."""
        standing = self.standing
        return Seen(
            boot=standing.boot,
            directory=os.fsencode(standing.shelf.root).decode(errors="backslashreplace"),
            lock_sha256=await standing.in_thread(standing.shelf.lock_sha256),
        )

    def capabilities(self) -> Capabilities:
        """GET capabilities."""
        hooks = self.standing.hooks
        return Capabilities(
            boot=self.standing.boot,
            kind=hooks.kind,
            instance=hooks.instance,
            mode=hooks.mode,
            workers=hooks.workers,
            can_cut=hooks.can_cut,
        )
