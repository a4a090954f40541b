"""The door that work goes through: it enters, rests at boundaries, leaves, and waits while that is closed.

One object serves every route of a server. Without a control plane it never closes.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, final

import anyio

from triocollect.participant.attendance import Attendance
from triocollect.participant.lease import Lease
from triocollect.participant.marks import Marks, up_to
from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Blocker, PrepareReport
from triocollect.protocol.refusals import Code, Refusal
from triocollect.telemetry import count


@final
class Work:
    """One piece of work under way: `with admission.enter(…) as work`.

    It *blocks* a checkpoint while `why` says what is under way, and *rests* (counts as standing at its last
    boundary) while `why` is None. Retiring its episode cancels the body of the `with`; the block then ends
    quietly with `retired` set, so an answer is needed after it (`admission.marks.refusal`).
    """

    def __init__(self, admission: "Admission", episode: EpisodeId | None, why: str | None) -> None:
        self.episode: Final = episode
        self.why = why
        self.retired = False
        self._admission: Final = admission
        self._scope: Final = anyio.CancelScope()

    def busy(self, why: str) -> None:
        """From here on it blocks, until it rests or leaves."""
        self.why = why
        self._admission.changed()

    def rest(self) -> None:
        """From here on it counts as standing at the boundary that was recorded last."""
        self.why = None
        self._admission.changed()

    async def boundary(self, why: str) -> None:
        """A boundary is recorded: rest while the door is closed, then be busy again.

        Open: no pause, no checkpoint of the event loop.
        """
        self.rest()
        await self._go_on(why)

    @asynccontextmanager
    async def resting(self, why: str) -> AsyncIterator[None]:
        """The body may run twice after a crash, so it does not block. What follows waits while closed."""
        self.rest()
        try:
            yield
        finally:
            await self._go_on(why)  # also before a failure is acted on

    async def _go_on(self, why: str) -> None:
        try:
            await self._admission.until_open()
        finally:
            self.busy(why)  # cancelled while closed: what it does on its way out belongs to no boundary

    def retire(self) -> None:
        """Cancel it, wherever it stands."""
        self.retired = True
        self._scope.cancel()

    def __enter__(self) -> "Work":
        self._scope.__enter__()
        self._admission.works.add(self)
        self._admission.changed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._admission.works.discard(self)
        self._admission.changed()
        return bool(self._scope.__exit__(kind, error, trace))


@final
class Admission:
    """Who is at work, who may come in, and whether anybody may."""

    def __init__(self) -> None:
        self.marks: Final = Marks()
        self.lease: Final = Lease()
        self.attendance: Final = Attendance()
        self.works: Final[set[Work]] = set()
        self.served = False  # work was admitted since the start
        self.sender: Sender | None = None  # who collects here; None before the first word of one
        self.left = False  # it has said goodbye
        self.end_of_lease: Callable[[], None] = self.open  # the control plane puts its abort here
        self.on_entry: Callable[[EpisodeId], None] | None = None  # a participant that notes whom it serves
        self.on_freed: Callable[[EpisodeId], None] | None = None  # a worker that tells whom it keeps
        self._reopened: anyio.Event | None = None  # None while open
        self._changed: anyio.Event | None = None  # somebody waits for a change

    @property
    def closed(self) -> bool:
        """Whether a checkpoint or a restore keeps everything new out. Call `end_expired_lease` before."""
        return self._reopened is not None

    def end_expired_lease(self) -> None:
        """Open when the lease is over; nobody watches it, so whoever comes to the door does this first."""
        if self.closed and self.lease.left_s() <= 0:
            self.lease.clear()
            count("leases.expired")
            self.end_of_lease()

    async def until_open(self) -> None:
        """Wait while closed, at most until the lease's end, which then opens.

        Returns without a pause when open: what follows is one step with the question. Who is woken asks
        again, since a new checkpoint may have closed the door meanwhile.
        """
        while True:
            self.end_expired_lease()
            if (reopened := self._reopened) is None:
                return
            with anyio.move_on_after(max(0.0, self.lease.left_s())):
                await reopened.wait()

    def meet(self, sender: Sender) -> None:
        """This collector, and no other, is worked for from now on."""
        self.sender, self.left = sender, False

    def goodbye(self) -> None:
        """The collector sends nothing more; what still arrives in its name was under way too long."""
        self.left = True

    def refusal(self, episode: EpisodeId | None, *, sender: Sender | None = None) -> Refusal | None:
        """Why a data request is not taken: of a collector that is gone, or of a retired attempt.

        Ask again after every wait. `sender` is None when the request does not name it.
        """
        if sender is not None and (gone := self._gone(sender)) is not None:
            return gone
        return None if episode is None else self.marks.refusal(episode)

    def _gone(self, sender: Sender) -> Refusal | None:
        """A request may lie in a queue for longer than its collector lives; nobody would ever forget it."""
        if (ours := self.sender) is None:
            return None
        if sender.run != ours.run:
            return Refusal(
                code=Code.OTHER_RUN, detail=f"this server works for run {ours.run}, not for {sender.run}"
            )
        if sender.epoch < ours.epoch:
            return Refusal(
                code=Code.STALE_EPOCH,
                detail=f"epoch {sender.epoch} is over: epoch {ours.epoch} collects here",
            )
        if self.left and sender.epoch == ours.epoch:
            return Refusal(code=Code.STALE_EPOCH, detail=f"epoch {sender.epoch} has said goodbye")
        return None

    def enter(self, episode: EpisodeId | None, why: str | None) -> Work:
        """Admit a piece of work, to be used in a `with`: blocking because of `why`, or resting (None)."""
        self.served = True
        if episode is not None and self.on_entry is not None:
            self.on_entry(episode)
        return Work(self, episode, why)

    def freed(self, episode: EpisodeId) -> None:
        """Nothing is kept of this episode any more."""
        if self.on_freed is not None:
            self.on_freed(episode)

    async def admit(
        self, episode: EpisodeId | None, why: str | None, *, sender: Sender | None = None
    ) -> Work | Refusal:
        """Wait while closed, then refuse or `enter`, in one step with the opening."""
        await self.until_open()
        refused = self.refusal(episode, sender=sender)
        return self.enter(episode, why) if refused is None else refused

    def end_work_for(self, episode: EpisodeId) -> None:
        """Cancel what is under way for an episode that is over; without a wait and without a mark."""
        for work in self.works:
            if work.episode == episode:
                work.retire()

    def blockers(self) -> list[Blocker]:
        """What still prevents a safe cut."""
        return [
            Blocker("" if work.episode is None else work.episode.capture_key, work.why)
            for work in self.works
            if work.why is not None
        ]

    def report(
        self, restarts: Collection[EpisodeId] = (), counts: Mapping[str, int] | None = None
    ) -> PrepareReport:
        """How far a prepare has come, all of it. What belongs to a restart never blocks."""
        restarting = frozenset(episode.capture_key for episode in restarts)
        blockers = sorted(
            (one for one in self.blockers() if one.key not in restarting), key=lambda one: one.key
        )
        return PrepareReport(
            blockers=tuple(blockers),
            blocker_count=len(blockers),
            restarts=tuple(sorted(restarting)),
            counts=dict(counts or {}),
        )

    async def settle(self) -> None:
        """Return at the next change: work that enters, rests, is busy again or leaves."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    async def stop(self, episodes: Collection[EpisodeId]) -> None:
        """Cancel the work of these attempts and of all before them; return when it is gone."""
        over = up_to(episodes)
        stopped = [work for work in self.works if work.episode is not None and over(work.episode)]
        for work in stopped:
            if not work.retired:
                work.retire()
        while not self.works.isdisjoint(stopped):
            await self.settle()

    def close(self) -> None:
        """Keep everything new out. The control plane's to call."""
        if self._reopened is None:
            self._reopened = anyio.Event()

    def open(self) -> None:
        """Let everybody in who waits. The control plane's to call."""
        self.lease.clear()
        if self._reopened is not None:
            self._reopened.set()
            self._reopened = None

    def changed(self) -> None:
        """Wake whoever waits for a change."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None
