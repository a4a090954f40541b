"""A run that owns its rows: it holds a directory, commands the servers, and continues what was cut."""

import datetime as dt
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio
from attrs import frozen

from triocollect.checkpoint.airspace import Blocking
from triocollect.checkpoint.controller import command
from triocollect.checkpoint.coordination import Coordination, lease_s
from triocollect.checkpoint.crew import Crew
from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.discovery import (
    Candidate,
    Found,
    discover,
    highest_epoch,
    require_kinds,
    unseen_behind,
)
from triocollect.checkpoint.dispatch_log import DispatchLog, start_dispatched
from triocollect.checkpoint.inbox import tick
from triocollect.checkpoint.ladder import Rung, episodes_named
from triocollect.checkpoint.orders import Ended, Ending
from triocollect.checkpoint.plan import left_out_of_the_cut, plan
from triocollect.checkpoint.restore import restore
from triocollect.checkpoint.same_place import require_same_place
from triocollect.checkpoint.sent import NOTHING_SENT, read_dispatched
from triocollect.collector.air import Air, AirParts
from triocollect.collector.continuing import calls_saved, continued_of
from triocollect.collector.feed import fly_all
from triocollect.collector.fleet import Fleet
from triocollect.collector.history import NO_HISTORY, History, history_of
from triocollect.collector.lock_directory import LockedDirectory
from triocollect.collector.set_out import Outset
from triocollect.durable import set_aside
from triocollect.errors import CheckpointError, StorageError
from triocollect.events import Listener, Note
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing, SingleServer
from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import DispatchHeader
from triocollect.report.run_report import Continued

_LAST_WORDS_S: Final = 10.0


@frozen(kw_only=True)
class Control:
    """Everything that a controlled run has beside its rows, after its first words to the servers."""

    ours: LockedDirectory
    crew: Crew
    air: Air
    log: DispatchLog
    continued: Continued | None  # of an earlier run's rows

    def headers(self, key: RowKey) -> list[tuple[bytes, bytes]]:
        """What a `/run` says beside its row."""
        return self.air.headers(key, Sender(self.ours.directory.run, self.crew.coordination.epoch))


class Taking:
    """How control is taken: read what earlier runs left, greet the servers, restore."""

    def __init__(
        self, ours: LockedDirectory, outset: Outset, routing: Routing, blocking: Blocking, tell: Listener
    ) -> None:
        self._ours, self._outset, self._routing = ours, outset, routing
        self._blocking, self._tell = blocking, tell
        self._rung, self._sent, self._history = Rung(None), NOTHING_SENT, NO_HISTORY
        self._log: DispatchLog | None = None

    async def take(self, gate: Gate, participants: Sequence[Candidate]) -> Control:
        """Raises UsageError, RefusedError, CheckpointError, StorageError; nothing was sent then."""
        await self._blocking(self._look_back)
        for text in (*self._rung.words(), *self._sent.faults):
            self._warn(text)
        found = await self._discover(participants)
        path = self._ours.directory.path / DISPATCHED
        if (done := set_aside(path)) is not None:
            self._warn(done)
        try:
            await self._blocking(lambda: self._begin(path, highest_epoch(found)))
            assert self._log is not None
            return await self._meet(gate, found, self._log)
        except BaseException:
            if self._log is not None:
                self._log.close()
            raise

    def _look_back(self) -> None:
        """Read what earlier runs left; as long as that takes."""
        outset, path = self._outset, self._ours.directory.path
        if outset.resumed and outset.owns_checkpoints:
            self._find()
        sent = self._sent = read_dispatched(path / DISPATCHED).beside(outset.run_file.run)
        if not self._rung.is_bottom:
            sent = sent.above(0)  # who has left checkpoints has sent rows, also where the log is lost
        self._history = history_of(outset.read_rows(), outset.survey, sent, episodes_named(path))

    def _begin(self, path: Path, seen: int) -> None:
        """Take the next epoch, above the one that was `seen` at a server, and start the log."""
        ours, whole, before = self._ours, self._rung.checkpoint, self._sent.header
        known = (0 if before is None else before.epoch, 0 if whole is None else whole.collection.epoch)
        header = DispatchHeader(
            run=ours.directory.run,
            epoch=ours.directory.raise_epoch(max(seen, *known)),
            sequence=ours.store.next_sequence(0 if before is None else before.sequence),
            reserved=0,
            floor=self._history.floor,
            output=self._outset.run_file.run,
        )
        self._log = start_dispatched(path, header, self._history.attempts(), self._history.answered)

    async def _meet(self, gate: Gate, found: Sequence[Found], log: DispatchLog) -> Control:
        history = self._history
        parts = AirParts(
            gate=gate,
            ledger=Ledger(history.highest(), floor=history.floor),
            sinks=self._outset.sinks,
            log=log,
            inbox=self._ours.inbox,
            blocking=self._blocking,
        )
        air = Air(parts)
        crew = self._crew(air, found, log.header.epoch)
        air.meet(crew.coordination, self._routing)
        self._outset.sinks.sync_beside(log.sync)
        greeted = await crew.coordination.hello()
        directory = self._ours.directory
        require_same_place(greeted, directory.path, directory.lock_sha256)
        # Not as they were found: until the hello they may have let rows of an earlier collector in.
        served = any(status.served for status in (await crew.coordination.statuses()).values())
        continued = await self._restore(crew, history, log, served=served)
        return Control(ours=self._ours, crew=crew, air=air, log=log, continued=continued)

    def _find(self) -> None:
        """Without regard to the input where the user accepted that it changed: it would match none."""
        outset = self._outset
        accepted = "input" in outset.run_file.drift
        self._rung = self._ours.store.find(
            input_sha256=None if accepted else outset.rows.input_sha256, output=outset.run_file.run
        )

    async def _discover(self, named: Sequence[Candidate]) -> tuple[Found, ...]:
        asked = [Candidate(url) for url in self._routing.urls()]
        found = await discover(self._ours.client, [*asked, *named])
        taking_part = {one.participant.url for one in found}
        require_kinds(found, [one.url for one in asked if one.url not in taking_part])
        if isinstance(self._routing, SingleServer) and (told := unseen_behind(found)) is not None:
            self._tell(Note(told))
        return found

    def _crew(self, air: Air, found: Sequence[Found], epoch: int) -> Crew:
        ours = self._ours
        coordination = Coordination(
            [one.participant for one in found],
            run=ours.directory.run,
            epoch=epoch,
            lease_s=lease_s(ours.config.timeout_s),
            restarted=air.ledger.tear,
        )
        return Crew(
            air=air,
            coordination=coordination,
            store=ours.store,
            record=ours.directory.append_outcome,
            run=ours.directory.run,
            output=self._outset.run_file.run,
            input_sha256=self._outset.rows.input_sha256,
            timeout_s=ours.config.timeout_s,
            blocking=self._blocking,
            listener=self._tell,
            clock=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            moment=time.monotonic,
        )

    async def _restore(
        self, crew: Crew, history: History, log: DispatchLog, *, served: bool
    ) -> Continued | None:
        whole, root = self._rung.checkpoint, self._ours.directory.path
        episodes = () if whole is None else whole.collection.continued
        known = planned = plan(episodes, history.tried, floor=history.floor)
        if not served:  # nothing of an earlier run can run on servers that have served nobody
            planned = msgspec.structs.replace(planned, to_retire={})
        if whole is None:
            for key, episode in planned.to_retire.items():
                crew.air.ledger.lose(key, episode)
            return continued_of(root, None, known, 0)
        for sentence in left_out_of_the_cut(whole.collection.restarted, history.tried):
            self._warn(sentence)

        def log_installs(episodes: Sequence[EpisodeId]) -> None:
            log.append(episodes)
            log.sync()

        restored = (await restore(crew, whole, planned, log_installs)).restored
        checkpoint_id = whole.collection.checkpoint_id
        if restored:
            self._tell(Note(f"{restored} rows go on from checkpoint {checkpoint_id}"))
        rollouts = {one.rollout_id for one in planned.continued.values()} if restored else set[str]()
        return continued_of(root, checkpoint_id, known, restored, calls_saved(whole, rollouts))

    def _warn(self, text: str) -> None:
        self._tell(Note(text, "warning"))


async def fly_controlled(control: Control, fleet: Fleet, outset: Outset, *, longest_first: bool) -> Ended:
    """Fly all rows while the controller takes orders; how it ended."""
    inbox, every_s = control.ours.inbox, control.ours.config.every_s
    ended: list[Ended] = []

    async def obey() -> None:
        ended.append(await command(control.crew, inbox))

    try:
        async with trio.open_nursery() as services:
            if every_s is not None:
                services.start_soon(tick, inbox, every_s)
            async with trio.open_nursery() as controller:
                controller.start_soon(obey)
                if control.air.ledger.lost:
                    inbox.retire()
                with control.air.flight:
                    await fly_all(fleet, outset, longest_first=longest_first)
                inbox.rows_done()
            services.cancel_scope.cancel()
        await _say_goodbye(control, ended[0])
        await _end_log(control)
    except BaseException:
        control.log.close()
        raise
    return ended[0]


async def _end_log(control: Control) -> None:
    """The rows are written, so a disk that is full here takes nothing away: the log then has no clean end."""
    try:
        await control.crew.blocking(control.log.end)
    except StorageError as error:
        control.crew.listener(Note(f"{error}; nothing is lost, every row is written", "warning"))


async def _say_goodbye(control: Control, ended: Ended) -> None:
    """Refusals and left-overs of finished rollouts go; who is not reached keeps them until it ends.

    After a stop participants are closed, and have heard by its commit that nothing comes any more. After a
    second Ctrl-C nobody is waited for.
    """
    if ended.ending is Ending.DONE:
        with trio.move_on_after(_LAST_WORDS_S):
            try:
                await control.crew.coordination.goodbye(control.air.finished())
            except CheckpointError as error:
                control.crew.listener(
                    Note(f"not every server has heard of the run's end: {error}", "warning")
                )
