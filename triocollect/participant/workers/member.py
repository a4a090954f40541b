"""A worker's end of the link: it drives this process's hooks and admission as the coordinator says."""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, final

import anyio
import msgspec
from anyio.abc import TaskGroup

from triocollect.errors import TriocollectError
from triocollect.participant.admission import Admission
from triocollect.participant.hooks import Hooks, R
from triocollect.participant.marks import up_to
from triocollect.participant.operations import Refuse
from triocollect.participant.standing import MOST_BLOCKERS
from triocollect.participant.workers import frames
from triocollect.participant.workers.link import GONE, Link, Outbox
from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import PrepareReport
from triocollect.telemetry.logs import bound

Order: TypeAlias = (
    frames.Tell | frames.Export | frames.Install | frames.Discard | frames.Stop | frames.Forget | frames.Clear
)

_OPEN: Final = "it is open, or was meanwhile"

_log: Final = logging.getLogger("triocollect.participant")


@final
class Member(Generic[R]):
    """One of several workers. `hooks` and `admission` are those of its own application.

    Whoever serves requests here asks `lost` and waits for `noted` before an episode's first one.
    """

    def __init__(self, hooks: Hooks[R], admission: Admission, link: Link) -> None:
        self.ready: Final = anyio.Event()  # what the others knew is known: requests may be served
        self._hooks: Final = hooks
        self._admission: Final = admission
        self._link: Final = link
        self._outbox: Final = Outbox()
        self._known: Final[dict[str, int]] = {}  # rollouts with a part here, and the latest attempt
        self._lost: dict[str, int] = {}
        self._generation = 0
        self._fault: str | None = None
        self._latest = frames.Report(generation=0, sequence=0)
        admission.on_freed = self._freed

    async def run(self) -> None:
        """Do what the coordinator says, until the link ends: then nothing here is of use to anybody."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send)
            tasks.start_soon(self._report_changes)
            await self._obey(tasks)
            tasks.cancel_scope.cancel()

    def lost(self, episode: EpisodeId) -> bool:
        """Whether an earlier worker took this episode's part with it, so that nothing of it may go on."""
        return episode.attempt <= self._lost.get(episode.rollout_id, -1)

    async def noted(self, episode: EpisodeId, sender: Sender | None = None) -> None:
        """Return when the coordinator is sure to hear that this episode has a part here.

        The word outlives this process: should it be lost, its part is known to be. What the application will
        refuse for good gets no part, and nobody would ever forget it.
        """
        if self._admission.refusal(episode, sender=sender) is not None:
            return
        if self._known.get(episode.rollout_id, -1) < episode.attempt:
            self._note((episode,))
        await self._outbox.sent()

    def counted(self, name: str, by: float, attributes: Mapping[str, str]) -> None:
        """So much more of a metric: the coordinator adds it to the server's."""
        self._say(frames.Counted(name, by, dict(attributes)))

    def _note(self, episodes: tuple[EpisodeId, ...]) -> None:
        for episode in episodes:
            self._known[episode.rollout_id] = episode.attempt
        self._say(frames.Noted(episodes))

    def _freed(self, episode: EpisodeId) -> None:
        if self._known.get(episode.rollout_id) == episode.attempt:
            del self._known[episode.rollout_id]
            self._say(frames.Freed((episode,)))

    # -- what it is told ------------------------------------------------------------------------------------

    async def _obey(self, tasks: TaskGroup) -> None:
        while True:
            try:
                said = frames.from_coordinator(await self._link.receive())
            except GONE:
                return
            match said:
                case frames.Welcome(marks, lost):
                    self._admission.marks.take_over(marks)
                    self._lost = lost
                case frames.Stand():
                    with bound(said.whose):
                        self._stand(said)
                    self.ready.set()
                case _:
                    with bound(said.whose):  # also what is begun here, to its end
                        self._at_once(said)
                        tasks.start_soon(self._carry_out, said)

    def _stand(self, stand: frames.Stand) -> None:
        """Close or open, in one step with whom to obey."""
        admission = self._admission
        if stand.sender is not None:
            admission.meet(stand.sender)
        if stand.left:
            admission.goodbye()
        if admission.closed and not (stand.closed and stand.generation == self._generation):
            admission.open()
            self._hook(self._hooks.open)
        if stand.closed and not admission.closed:
            self._generation = stand.generation
            admission.close()
            if stand.budget_s is not None:
                admission.lease.budget_s = stand.budget_s
            if stand.left_s is not None:
                admission.lease.kept_elsewhere(stand.left_s)
            self._fault = self._hook(self._hooks.close)
        self._report()

    def _hook(self, hook: Callable[[], None]) -> str | None:
        """What went wrong."""
        try:
            hook()
        except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
            return _fault(error)
        return None

    def _at_once(self, said: Order) -> None:
        """What holds from the moment that it is heard."""
        marks = self._admission.marks
        match said:
            case frames.Install(becomes=scope):
                marks.install(EpisodeId(one.rollout_id, one.becomes) for one in scope)
            case frames.Stop(episodes=episodes):
                marks.retire(episodes)
                over = up_to(episodes)
                self._lost = {name: at for name, at in self._lost.items() if not over(EpisodeId(name, at))}
            case frames.Forget(rollout_ids=rollout_ids):
                self._hooks.forget(rollout_ids)
                marks.forget(rollout_ids)
                for rollout_id in rollout_ids:
                    self._lost.pop(rollout_id, None)
                    self._known.pop(rollout_id, None)
            case frames.Clear(marks=left):
                marks.take_over(left)
                self._lost.clear()
                self._known.clear()
            case _:
                pass

    async def _carry_out(self, said: Order) -> None:
        try:
            done = await self._carried_out(said)
        except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
            done = frames.Done(number=said.number, fault=_fault(error))
        self._report()
        self._say(done)

    async def _carried_out(self, said: Order) -> frames.Done:
        match said:
            case frames.Export():
                return await self._exported(said)
            case frames.Install():
                return await self._installed(said)
            case frames.Discard(keep=keep):
                await self._hooks.discard(None if keep is None else frozenset(keep))
            case frames.Stop(episodes=episodes):
                await self._hooks.stop(episodes)
            case frames.Clear():
                await self._hooks.clear()
            case _:
                pass
        return frames.Done(number=said.number)

    async def _exported(self, said: frames.Export) -> frames.Done:
        """In one step with the question whether everything stands where it was reported to; asked again."""
        if self._moved(said):
            return _not_ready(said, _OPEN)
        if (left := self._hooks.report()).blocker_count:
            return _not_ready(
                said, f"{left.blocker_count} not at a boundary any more: {left.blockers[0].key}"
            )
        now_or_later = self._hooks.export(frozenset(said.scope))
        exported = await now_or_later() if callable(now_or_later) else now_or_later
        if isinstance(exported, Refuse):
            return _not_ready(said, exported.detail)
        if self._moved(said):
            return _not_ready(said, _OPEN)
        records = tuple(msgspec.Raw(msgspec.json.encode(record)) for record in exported)
        return frames.Done(number=said.number, records=records, kept=tuple(self._hooks.kept()))

    def _moved(self, said: frames.Export) -> bool:
        return not self._admission.closed or self._generation != said.generation

    async def _installed(self, said: frames.Install) -> frames.Done:
        if self._hooks.served():
            return frames.Done(
                number=said.number, fault="it has served: only a fresh process is restored into"
            )
        records = [msgspec.json.decode(line, type=self._hooks.record_type) for line in said.records]
        becomes = {
            EpisodeId(one.rollout_id, one.attempt): EpisodeId(one.rollout_id, one.becomes)
            for one in said.becomes
        }
        installed = tuple(await self._hooks.install(records, becomes))
        self._note(installed)
        return frames.Done(number=said.number, installed=installed)

    # -- what it says ---------------------------------------------------------------------------------------

    async def _report_changes(self) -> None:
        """Each report takes time with all that is at work here, so changes wait for one another as long."""
        while True:
            began = anyio.current_time()
            if (report := self._now()) != self._latest:
                self._report(report)
            took_s = anyio.current_time() - began
            await self._hooks.settle()
            await anyio.sleep(took_s)  # also 0: a settle that never waits must not starve the rest

    def _report(self, report: frames.Report | None = None) -> None:
        self._latest = msgspec.structs.replace(report or self._now(), sequence=self._latest.sequence + 1)
        self._say(self._latest)

    def _now(self) -> frames.Report:
        """Where this worker is. While open nobody asks for blockers."""
        hooks, whole, fault = self._hooks, PrepareReport(), self._fault
        if self._admission.closed:
            try:
                whole = hooks.report()
            except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
                fault = _fault(error)
        return frames.Report(
            generation=self._generation,
            sequence=self._latest.sequence,
            blockers=whole.blockers[:MOST_BLOCKERS],
            blocker_count=max(whole.blocker_count, len(whole.blockers)),
            restarts=whole.restarts,
            counts=whole.counts,
            live=hooks.live(),
            served=hooks.served(),
            restored_pending=hooks.restored_pending(),
            fault=fault,
        )

    def _say(self, said: frames.FromWorker) -> None:
        self._outbox.put(lambda: frames.encode(said))

    async def _send(self) -> None:
        try:
            await self._outbox.run(self._link)
        except GONE:
            return  # whoever hears it says so


def _not_ready(said: frames.Export, fault: str) -> frames.Done:
    return frames.Done(number=said.number, fault=fault, not_ready=True)


def _fault(error: Exception) -> str:
    """What went wrong, in words. One that is not ours is logged with its traceback."""
    if isinstance(error, TriocollectError):
        return str(error)
    _log.error("a participant's hook failed", exc_info=error)
    return f"{type(error).__name__}: {error}"
