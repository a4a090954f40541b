"""The hooks that stand for all workers: what the control plane asks is asked of each of them."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Generic, final

import anyio
import msgspec

from triocollect.errors import StateError
from triocollect.participant.admission import Admission
from triocollect.participant.hooks import Hooks, Later, R, episode_of
from triocollect.participant.operations import Refuse
from triocollect.participant.workers import frames
from triocollect.participant.workers.crew import Crew, named
from triocollect.participant.workers.link import GONE, Link
from triocollect.participant.workers.orders import MakeOrder, Orders, Slot, well
from triocollect.participant.workers.owner import owner_of
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Kind, Mode, PrepareReport, RestoredEpisode
from triocollect.protocol.refusals import Code
from triocollect.telemetry import count
from triocollect.telemetry.logs import Whose, whose

JOIN_S: Final = 60.0  # that an install waits for a worker that has not joined yet


@final
class Coordinator(Generic[R]):
    """`Hooks` over so many workers, each of which has hooks like those of `likeness`, which is never served.

    `admission` is the control plane's: nothing enters it, but its marks, its lease and the collector that is
    obeyed are those of all workers. Its tasks are `serve`, one per worker that is there, and `keep_lease`.
    """

    def __init__(self, workers: int, likeness: Hooks[R], admission: Admission) -> None:
        self.kind: Kind = likeness.kind
        self.instance = likeness.instance
        self.mode: Mode = likeness.mode
        self.record_type = likeness.record_type
        self.workers = workers
        self.can_cut = likeness.can_cut
        self.crew: Final = Crew(workers)
        self._admission: Final = admission
        self._orders: Final = Orders()
        self._kept: tuple[str, ...] = ()
        self._finished: Final[set[str]] = set()  # rollouts of which a worker may not have heard so yet
        self._changed = anyio.Event()

    async def serve(self, worker: int, link: Link) -> None:
        """A worker is there: hear it and tell it what to do, until its link ends."""
        slot = self._orders.joined(worker)
        self.crew.joined(worker)
        welcome = frames.Welcome(self._admission.marks.highest(), self.crew.lost_on(worker))
        slot.outbox.put(lambda: frames.encode(welcome))
        slot.outbox.put(partial(self._stand, whose()))
        self._change()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send, slot, link)
                await self._hear(worker, slot, link)
                tasks.cancel_scope.cancel()
        finally:
            self.crew.lost(worker)
            self._orders.lost(worker)
            self._change()

    async def keep_lease(self) -> None:
        """Open when the lease is over: who waits for the opening waits in the workers."""
        while True:
            changed = self._changed
            with anyio.move_on_after(max(0.0, self._admission.lease.left_s())) as until:
                await changed.wait()
            if until.cancelled_caught:
                self._admission.end_expired_lease()

    # -- the hooks ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """A new generation; the workers hear of it."""
        self.crew.close()
        self._tell_how_things_stand()

    def open(self) -> None:
        """The workers hear of it."""
        self.crew.open()
        self._tell_how_things_stand()

    async def in_force(self) -> None:
        """Return when every worker obeys all that was said, and has said where it is."""
        finished = tuple(self._finished)
        await self._all(lambda number, _: frames.Tell(number=number))
        self.crew.forgotten(finished)  # again: a part may have been noted before its worker heard of it
        self._finished.difference_update(finished)

    def report(self) -> PrepareReport:
        """All workers' together. Raises StateError for what went wrong when one closed."""
        if faults := self.crew.faults():
            raise StateError("; ".join(faults))
        return self.crew.report()

    async def settle(self) -> None:
        """Wait for a change of any worker.

        Raises StateError for a blocker that no waiting removes: one that was lost while closed.
        """
        if not self.crew.torn:
            await self._changed.wait()
        if self.crew.torn:
            raise StateError("; ".join(f"{one.key}: {one.why}" for one in self.crew.report().blockers[:1]))

    def export(self, scope: frozenset[EpisodeId]) -> Later[R]:
        """Ask each worker for what it holds: it says whether it still stands where it was reported to be."""
        return partial(self._gathered, scope)

    def kept(self) -> Sequence[str]:
        """Of all of them."""
        return self._kept

    async def install(
        self, records: Sequence[R], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Each record on its owner; what becomes of them on all, whose files may be older than this crew.

        Raises StateError where one of them could not take up its own.
        """
        with anyio.move_on_after(JOIN_S):
            while self.crew.missing and not self.crew.torn:
                await self._changed.wait()
        lines: dict[int, list[msgspec.Raw]] = {number: [] for number in self.crew.numbers}
        for record in records:
            lines[self._owner(episode_of(record))].append(msgspec.Raw(msgspec.json.encode(record)))
        scope = tuple(
            RestoredEpisode(was.rollout_id, was.attempt, becomes=to.attempt) for was, to in becomes.items()
        )

        def order(number: int, worker: int) -> frames.Install:
            return frames.Install(number=number, records=tuple(lines[worker]), becomes=scope)

        answers = well(await self._all(order))
        if (gap := self.crew.gap()) is not None:
            raise StateError(f"{named(gap)} was lost, or is not there")
        return [one for done in answers.values() for one in done.installed]

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """On each worker; one that is lost keeps nothing."""
        kept = None if keep is None else tuple(keep)
        await self._all_well(lambda number, _: frames.Discard(number=number, keep=kept))

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """On each worker, with the marks; one that joins later hears of the marks by its welcome."""
        await self._all_well(lambda number, _: frames.Stop(number=number, episodes=tuple(episodes)))
        self.crew.retired(episodes)

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """On each worker, in force when `in_force` has returned."""
        finished = tuple(rollout_ids)
        self.crew.forgotten(finished)
        self._finished.update(finished)
        self._orders.give(lambda number, _: frames.Forget(number=number, rollout_ids=finished))

    async def clear(self) -> None:
        """On each worker, down to the marks that stand."""
        marks = self._admission.marks.highest()
        await self._all_well(lambda number, _: frames.Clear(number=number, marks=marks))
        self.crew.cleared()

    def live(self) -> bool:
        """Whether any worker is at work."""
        return self.crew.live()

    def served(self) -> bool:
        """Whether any worker has admitted work, also one that is gone."""
        return self.crew.served

    def restored_pending(self) -> int:
        """Of all of them."""
        return self.crew.restored_pending()

    # -- orders and answers ---------------------------------------------------------------------------------

    async def _gathered(self, scope: frozenset[EpisodeId]) -> Sequence[R] | Refuse:
        generation = self.crew.generation
        shares: dict[int, list[EpisodeId]] = {number: [] for number in self.crew.numbers}
        for episode in sorted(scope):
            shares[self._owner(episode)].append(episode)

        def order(number: int, worker: int) -> frames.Export:
            return frames.Export(number=number, generation=generation, scope=tuple(shares[worker]))

        answers = await self._all(order)
        not_ready = [done.fault for done in answers.values() if done is not None and done.not_ready]
        if (gap := self.crew.gap()) is not None and generation == self.crew.generation:
            not_ready.append(f"{named(gap)} is not as it was at the close")
        if not_ready:
            return Refuse(Code.NOT_READY, "; ".join(filter(None, not_ready)))
        done = well(answers).values()
        self._kept = tuple(key for one in done for key in one.kept)
        lines = (line for one in done for line in one.records)
        return [msgspec.json.decode(line, type=self.record_type) for line in lines]

    async def _all_well(self, order: MakeOrder) -> None:
        """Give everybody who is there an order. Raises StateError where one could not carry it out."""
        answers = await self._all(order)
        well({worker: done for worker, done in answers.items() if done is not None})

    async def _all(self, order: MakeOrder) -> dict[int, frames.Done | None]:
        """An order to everybody who is there; the answers, None from one that was lost."""
        self._tell_how_things_stand()
        return await self._orders.answers(order)

    def _owner(self, episode: EpisodeId) -> int:
        return owner_of(episode.rollout_id, self.workers)

    def _tell_how_things_stand(self) -> None:
        self._orders.tell(partial(self._stand, whose()))
        self._change()

    def _stand(self, of: Whose) -> bytes:
        """Made when it is sent: an opening and the collector for which it is are one step of the plane."""
        admission = self._admission
        budget_s, left_s = admission.lease.budget_s, admission.lease.left_s()
        stand = frames.Stand(
            self.crew.generation,
            self.crew.closed,
            admission.sender,
            admission.left,
            None if math.isinf(budget_s) else budget_s,
            None if math.isinf(left_s) else left_s,
            of,
        )
        return frames.encode(stand)

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _send(self, slot: Slot, link: Link) -> None:
        try:
            await slot.outbox.run(link)
        except GONE:
            return  # whoever hears it says so

    async def _hear(self, worker: int, slot: Slot, link: Link) -> None:
        while True:
            try:
                said = frames.from_worker(await link.receive())
            except GONE:
                return
            match said:
                case frames.Report():
                    self.crew.reported(worker, said)
                case frames.Noted(episodes):
                    self.crew.noted(worker, episodes)
                    continue
                case frames.Freed(episodes):
                    self.crew.freed(worker, episodes)
                    continue
                case frames.Counted(name, by, attributes):
                    count(name, by, **attributes)
                    continue
                case frames.Done():
                    slot.answered(said)
            self._change()
