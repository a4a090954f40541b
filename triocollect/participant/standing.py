"""Where a participant stands: its phase, the operation it is at, and how it closes and opens."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, final

import anyio
import msgspec
from anyio.abc import TaskGroup

from triocollect.participant.admission import Admission
from triocollect.participant.errands import Errand
from triocollect.participant.hooks import Hooks, Later, R
from triocollect.participant.operations import Operations, Refuse
from triocollect.participant.records import Publication, Shelf
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Call, Commit, Committed, Installed, PrepareReport
from triocollect.protocol.phases import Event, Phase, step
from triocollect.protocol.refusals import Code

MOST_BLOCKERS: Final = 100  # named in a report
_log: Final = logging.getLogger("triocollect.participant")

T = TypeVar("T")
A = TypeVar("A")


class InThread(Protocol):
    """Runs what blocks: `anyio.to_thread.run_sync`, or inline where time is simulated."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """What `work` returns."""
        ...


@final
class Cut(Generic[R]):
    """What the commit of one operation exported, once, and the write of it."""

    def __init__(self, call: Commit) -> None:
        self.call: Final = call
        self.scope: Final = frozenset(EpisodeId(one.rollout_id, one.attempt) for one in call.scope)
        self.records: tuple[R, ...] = ()
        self.kept: tuple[str, ...] = ()
        self.counts: dict[str, int] = {}
        self.coming: Later[R] | None = None  # the export, where it has to be waited for
        self.failed: Refuse | None = None  # the export did; it is not asked again
        self.publication = Publication()  # of the latest write
        self.write: Errand[Committed] | None = None


@final
class Standing(Generic[R]):
    """The state that all calls share. Its methods are steps of the event loop: none waits."""

    def __init__(
        self, hooks: Hooks[R], admission: Admission, shelf: Shelf, in_thread: InThread, boot: str
    ) -> None:
        self.hooks: Final = hooks
        self.admission: Final = admission
        self.shelf: Final = shelf
        self.in_thread: Final = in_thread
        self.boot: Final = boot
        self.operations: Final = Operations()
        self.phase = Phase.OPEN
        self.tasks: TaskGroup | None = None  # of the application's lifespan
        self.cut: Cut[R] | None = None
        self.install: Errand[Installed] | None = None
        self.unwanted = False  # the operation of the install under way is over
        self._prepares: Final[set[anyio.CancelScope]] = set()
        self._writes: list[Errand[Committed]] = []
        admission.end_of_lease = partial(self.end, Event.LEASE_END)

    def report(self) -> PrepareReport:
        """What the server reports now, with the first blockers only, and all of them counted."""
        whole = self.hooks.report()
        return msgspec.structs.replace(
            whole,
            blockers=whole.blockers[:MOST_BLOCKERS],
            blocker_count=max(whole.blocker_count, len(whole.blockers)),
        )

    def errand(self, work: Callable[[], Awaitable[A | Refuse]]) -> Errand[A]:
        """Begin work that outlives its call."""
        assert self.tasks is not None, "no control call is carried out outside the lifespan"
        return Errand(self.tasks, work)

    def write(self, work: Callable[[], Awaitable[Committed | Refuse]]) -> Errand[Committed]:
        """Begin a write; whoever resumes has to wait for it."""
        errand = self.errand(work)
        self._writes = [*self.writes_under_way(), errand]
        return errand

    def writes_under_way(self) -> list[Errand[Committed]]:
        """The writes that may still touch the disk."""
        return [write for write in self._writes if not write.done]

    def expire(self) -> None:
        """Notice a lease that is over."""
        self.admission.end_expired_lease()

    def ours(self, call: Call) -> bool:
        """Whether the call's operation can still act."""
        self.expire()
        return self.operations.is_current(call)

    def heard(self, call: Call, arrival: float) -> None:
        """A call of the open operation: the lease goes on."""
        if self.phase is not Phase.OPEN and self.operations.is_current(call):
            self.admission.lease.heard(arrival, call.budget_ms, call.lease_ms)

    def move(self, event: Event) -> None:
        """Follow the table."""
        self.phase = step(self.phase, event)

    def close(self, call: Call, event: Event, arrival: float) -> None:
        """A prepare or a restore begins. What `hooks.close` raises is the caller's to handle."""
        self.operations.begin(call)
        self.move(event)
        self.cut, self.unwanted = None, False
        self.admission.attendance.begin()
        self.admission.close()
        self.heard(call, arrival)
        self.hooks.close()

    def end(self, event: Event) -> None:
        """The open operation is over: a resume, its lease's end, a newer operation or a higher epoch.

        An unfinished write is stopped. While an install is under way the phase stays, until that has ended.
        """
        if self.operations.current is not None:
            self.operations.end(self.operations.current)
        if self.phase is Phase.OPEN:
            return
        if self.cut is not None:
            self.cut.publication.stop()
        self.unwanted = self.phase is Phase.RESTORING
        self.back(event)

    def back(self, event: Event) -> None:
        """Move, and open where that leads to open."""
        self.move(event)
        self.wake()
        if self.phase is not Phase.OPEN:
            return
        self.cut = None
        self.admission.open()
        try:
            self.hooks.open()
        except Exception:  # noqa: BLE001  # the hooks are somebody else's code
            _log.exception("open() of %s %s raised; it is open", self.hooks.kind, self.hooks.instance)

    def waiting(self, until: float) -> anyio.CancelScope:
        """The scope of a prepare that waits, to be handed to `done_waiting`."""
        scope = anyio.CancelScope(deadline=until)
        self._prepares.add(scope)
        return scope

    def done_waiting(self, scope: anyio.CancelScope) -> None:
        """It waits no longer."""
        self._prepares.discard(scope)

    def wake(self) -> None:
        """Every prepare that waits looks again where things stand."""
        for scope in self._prepares:
            scope.cancel()


def over(call: Call) -> Refuse:
    """The call's operation ended while it waited."""
    return Refuse(Code.STALE_CHECKPOINT, f"operation {call.operation} ended meanwhile")
