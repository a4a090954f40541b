"""Take one checkpoint: cut the run in two, so that everything before the cut is kept and can be continued.

The steps, in order: the gate closes; all participants are prepared; the scope is what flies or is restored,
less what somebody cannot capture; all commit it; rows that nobody exported get their answers in; all are
asked once more whether the cut held; what the run wrote is made durable; LATEST moves; all resume and the
gate opens.

Until LATEST moves anything that goes wrong means that nothing is published. Afterwards nothing does.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import trio

from triocollect.checkpoint.afterwards import record, tidy
from triocollect.checkpoint.crew import Crew, Laps, UnderWay
from triocollect.checkpoint.cutting import Cutting
from triocollect.checkpoint.names import folder_name, new_checkpoint_id
from triocollect.checkpoint.orders import NotPublished, Published, Taken
from triocollect.checkpoint.participants import Participant
from triocollect.checkpoint.store import NowLatest
from triocollect.errors import CheckpointError, DamageError, StorageError
from triocollect.events import CheckpointEnded, CheckpointStarted, Note
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import CheckpointOutcome, Collection, ParticipantRef, Restarted
from triocollect.protocol.messages import Committed
from triocollect.telemetry import during, span

ON_THE_WIRE_S: Final = 10.0  # the longest wait for answers that were on their way when their server closed
LAST_WORDS_S: Final = 2.0  # to let participants go even though the run ends


async def take_checkpoint(crew: Crew, under_way: UnderWay, why: str) -> Taken:
    """Take one. `under_way.scope` bounds it; when it becomes a stop, the gate and everybody stay closed.

    Raises what ends the run: StorageError of the run's own output, RefusedError where another collector has
    the directory now.
    """
    taking = _Taking(crew, under_way)
    with span("checkpoint", why=why, operation=taking.operation), during(taking.operation):
        return await taking.take(why)


class _Taking:
    def __init__(self, crew: Crew, under_way: UnderWay) -> None:
        self._crew: Final = crew
        self._under_way: Final = under_way
        self._began: Final = crew.moment()
        self._cutting: Final[Cutting] = crew.coordination.cutting()
        self._laps: Final = Laps()
        self._sequence = 0
        self._id = ""
        self._publication: NowLatest | None = None
        self._collection: Collection | None = None
        self._fault: str | None = None
        self._work_s = self._lost_s = 0.0

    @property
    def operation(self) -> int:
        """Its number within the epoch."""
        return self._cutting.number

    async def take(self, why: str) -> Taken:
        self._crew.air.gate.close()
        self._crew.listener(CheckpointStarted(self._cutting.number, why))
        try:
            await self._cut()
            all_open = await self._go_on()
        except BaseException:
            await self._abandon()
            raise
        taken = self._taken()
        # Who has not answered may write there still, and a later prune finds it; a stop has no later one.
        if self._publication is None and (all_open or self._under_way.is_stop):
            await tidy(self._crew, lambda: self._crew.store.discard(self._sequence))
        await record(self._crew, taken.outcome)
        saved = taken.continued if isinstance(taken, Published) else ()
        standing = self._crew.air.ledger.keys_of(saved)
        self._crew.listener(CheckpointEnded(taken.outcome, standing, self._cutting.counts()))
        return taken

    # -- until LATEST moves ---------------------------------------------------------------------------------

    async def _cut(self) -> None:
        began = trio.current_time()
        try:
            with self._under_way.scope as scope:
                await self._phases()
        except (CheckpointError, DamageError) as error:
            self._fault = str(error)
            return
        if scope.cancelled_caught and self._publication is None:
            self._fault = await self._why_late(trio.current_time() - began)

    async def _phases(self) -> None:
        crew, cutting, laps = self._crew, self._cutting, self._laps
        with laps.of("begin"):
            await self._in_store(self._take_number)
        with laps.of("prepare"):
            await cutting.prepare()
        restarts = self._restarts()
        scope = sorted(crew.air.ledger.scope() - restarts.keys())
        with laps.of("commit"):
            await self._in_store(self._make_folder)
            committed = await cutting.commit(
                checkpoint_id=self._id,
                directory=folder_name(self._sequence),
                scope=scope,
                stop=self._under_way.is_stop,
            )
        exported = _exported(committed)
        with laps.of("replies"):
            await self._wait_for_replies([one for one in scope if one.capture_key not in exported])
        with laps.of("confirm"):
            await cutting.confirm()
        with laps.of("sync"):
            continued = await self._synced([one for one in scope if one.capture_key in exported])
        with laps.of("publish"):
            await self._publish(self._collect(committed, continued, restarts))
        if not (self._under_way.is_stop or self._under_way.given_up):  # which have no time for old folders
            # Also past the deadline: on a slow disk each publish may come that late, and none would prune.
            with laps.of("prune"), trio.CancelScope(shield=True):
                await tidy(crew, crew.store.prune)

    def _take_number(self) -> None:
        self._sequence = self._crew.store.next_sequence()
        self._id = new_checkpoint_id(self._sequence)

    def _make_folder(self) -> None:
        self._crew.store.begin(self._sequence)

    def _restarts(self) -> dict[EpisodeId, str]:
        """What flies or is restored and cannot be captured now, and why."""
        ledger = self._crew.air.ledger
        reported = self._cutting.restarts()
        reasons = {one: reported[one.capture_key] for one in ledger.scope() if one.capture_key in reported}
        torn = {ledger.flying[key]: why for key, why in ledger.torn.items()}
        return {**reasons, **torn, **self._crew.air.uncontrolled()}

    async def _wait_for_replies(self, unexported: list[EpisodeId]) -> None:
        """An answer that was on the wire needs a moment; what is nowhere gets no more than that."""
        flying = set(self._crew.air.ledger.flying.values())
        if waiting := [episode for episode in unexported if episode in flying]:
            with trio.move_on_after(min(ON_THE_WIRE_S, self._under_way.left_s() / 4)):
                await self._crew.air.ended(waiting)

    async def _synced(self, exported: list[EpisodeId]) -> list[EpisodeId]:
        """What is continued: nobody has answered it, and every answer that there is survives a power cut."""
        while True:
            standing = self._crew.air.ledger.scope()
            continued = [episode for episode in exported if episode in standing]
            await self._crew.air.sync()
            if self._crew.air.ledger.scope().issuperset(continued):
                return continued

    def _collect(
        self,
        committed: Mapping[Participant, Committed],
        continued: list[EpisodeId],
        restarts: Mapping[EpisodeId, str],
    ) -> Collection:
        crew, directory = self._crew, folder_name(self._sequence)
        self._work_s = crew.air.work_s(continued)
        left_out = sorted(crew.air.ledger.scope().difference(continued))
        self._lost_s = crew.air.work_s(left_out)
        return Collection(
            checkpoint_id=self._id,
            sequence=self._sequence,
            epoch=crew.coordination.epoch,
            run=crew.run,
            output=crew.output,
            created=crew.clock(),
            input_sha256=crew.input_sha256,
            continued=tuple(continued),
            restarted=tuple(
                Restarted(one.rollout_id, one.attempt, reason=restarts.get(one, "no environment exported it"))
                for one in left_out
            ),
            participants=tuple(_ref(one, reply, directory) for one, reply in committed.items()),
        )

    async def _publish(self, collection: Collection) -> None:
        """From its first byte on nothing gives a publish up: LATEST must not move after it was left."""

        def publish() -> None:
            self._publication = self._crew.store.publish(collection)

        self._collection = collection
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(
            shield=True
        ):  # without a deadline: only a hung disk makes it longer than a moment
            await self._in_store(publish)

    # -- afterwards -----------------------------------------------------------------------------------------

    async def _go_on(self) -> bool:
        """Resume all and open the gate, unless the run stops; whether everybody has answered."""
        if not self._under_way.begin_to_resume():
            return False
        all_open = False
        with self._laps.of("resume"), self._under_way.resume_scope:
            all_open = await self._crew.coordination.end(self._cutting, self._under_way.scope.deadline)
        if not self._under_way.overtaken:
            self._crew.air.gate.open()
        return all_open

    async def _abandon(self) -> None:
        """The run ends here. The gate stays closed; participants that may live on are let go."""
        if not (self._under_way.is_stop or self._under_way.given_up):
            with trio.move_on_after(LAST_WORDS_S, shield=True):
                await self._crew.coordination.end(self._cutting, trio.current_time())

    def _taken(self) -> Taken:
        outcome = CheckpointOutcome(
            operation=self._cutting.number,
            checkpoint_id=self._id,
            published=self._publication is not None,
            reason=None if self._publication is not None else self._fault,
            phases_s=self._laps.seconds,
            ended=self._crew.clock(),
            began=self._began,
            epoch=self._crew.coordination.epoch,
            stopped=self._under_way.is_stop or msgspec.UNSET,
        )
        if self._publication is None or self._collection is None:
            return self._nothing(outcome)
        if self._publication.aside is not None:
            self._warn(self._publication.aside)
        if self._publication.unsynced is not None:
            self._warn(f"the checkpoint may not survive a power cut: {self._publication.unsynced}")
        collection = self._collection
        return Published(
            outcome=msgspec.structs.replace(
                outcome,
                continued=len(collection.continued),
                restarted=len(collection.restarted),
                work_s=self._work_s,
                undelivered=self._cutting.counted("undelivered"),
                cut=self._cutting.counted("cut", "held"),
                kept_tokens=self._cutting.counted("kept_tokens"),
                not_cut=self._cutting.counted("not_cut"),
                bytes=self._publication.bytes,
                lost_s=self._lost_s if collection.restarted else msgspec.UNSET,
                restarted_why=Counter(one.reason for one in collection.restarted) or msgspec.UNSET,
            ),
            continued=collection.continued,
            restarted=collection.restarted,
            stopped=self._under_way.is_stop,
        )

    def _nothing(self, outcome: CheckpointOutcome) -> NotPublished:
        blockers = self._cutting.blockers
        if blockers:
            count = self._cutting.blocker_count
            outcome = msgspec.structs.replace(outcome, blockers=blockers, blocker_count=count)
        return NotPublished(outcome=outcome, blockers=blockers, stopped=self._under_way.is_stop)

    async def _why_late(self, seconds: float) -> str:
        if self._under_way.given_up:
            return "it was given up"
        await self._cutting.ask_unready()
        if waiting := self._cutting.why_not_ready():
            return f"not everything stood at a boundary within {seconds:.0f} s: {waiting}"
        return f"it was not done within {seconds:.0f} s"

    async def _in_store(self, work: Callable[[], None]) -> None:
        try:
            await self._crew.blocking(work)
        except (StorageError, OSError) as error:
            raise CheckpointError(str(error)) from error

    def _warn(self, text: str) -> None:
        self._crew.listener(Note(text, "warning"))


def _exported(committed: Mapping[Participant, Committed]) -> frozenset[str]:
    """Capture keys of what an environment has exported: without that nothing goes on from a boundary."""
    environments = (reply for one, reply in committed.items() if one.kind == "environment")
    return frozenset(key for reply in environments for key in reply.exported)


def _ref(participant: Participant, reply: Committed, directory: str) -> ParticipantRef:
    return ParticipantRef(
        kind=participant.kind,
        instance=participant.instance,
        manifest=reply.manifest.path.removeprefix(f"{directory}/"),
        sha256=reply.manifest.sha256,
        record_count=reply.manifest.record_count,
        kept=tuple(sorted(set(reply.kept))) or msgspec.UNSET,
    )
