"""How a run takes control: it reads what earlier runs left, greets the servers, and restores what was cut.

Straight on, and nothing is sent before the end of it.
"""

import datetime as dt
import time
from collections.abc import Iterator, Sequence

import msgspec
from attrs import frozen

from triocollect.checkpoint.airspace import answer_of
from triocollect.checkpoint.coordination import Coordination, lease_s
from triocollect.checkpoint.crew import Crew
from triocollect.checkpoint.directory import DISPATCHED, Directory
from triocollect.checkpoint.discovery import (
    OWN_PATIENCE_S,
    PATIENCE_S,
    Candidate,
    Found,
    discover,
    highest_epoch,
    require_kinds,
    unseen_behind,
)
from triocollect.checkpoint.dispatch_log import DispatchLog, start_dispatched
from triocollect.checkpoint.ladder import Rung
from triocollect.checkpoint.plan import Plan, left_out_of_the_cut, plan
from triocollect.checkpoint.restore import restore
from triocollect.checkpoint.same_place import require_same_place
from triocollect.checkpoint.store import Store
from triocollect.collector.air import Air, AirParts
from triocollect.collector.continuing import calls_saved, continued_of
from triocollect.collector.inherited import Inherited, inherited
from triocollect.collector.lock_directory import LockedDirectory
from triocollect.collector.set_out import Outset
from triocollect.collector.setup import Setup
from triocollect.collector.under_control import UnderControl
from triocollect.collector.whereto import is_embedded
from triocollect.durable import set_aside
from triocollect.events import Note, Restored
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing, SingleServer
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import DispatchHeader
from triocollect.report.run_report import Continued
from triocollect.telemetry import bind, span


@frozen
class _Approach:
    """What the steps share."""

    setup: Setup
    ours: LockedDirectory
    outset: Outset
    routing: Routing

    def warn(self, text: str) -> None:
        self.setup.tell(Note(text, "warning"))


async def take_control(
    setup: Setup, ours: LockedDirectory, outset: Outset, routing: Routing, gate: Gate
) -> UnderControl:
    """Raises UsageError, RefusedError, CheckpointError, StorageError; nothing was sent then."""
    approach = _Approach(setup, ours, outset, routing)
    left = await answer_of(setup.blocking, lambda: look_back(ours.directory, ours.store, outset))
    for text in left.warnings():
        approach.warn(text)
    found = await who_takes_part(setup, ours, routing)
    if isinstance(routing, SingleServer) and (told := unseen_behind(found)) is not None:
        setup.tell(Note(told))
    if (done := set_aside(ours.directory.path / DISPATCHED)) is not None:
        approach.warn(done)
    seen = highest_epoch(found)
    log = await answer_of(
        setup.blocking, lambda: begin_log(ours.directory, ours.store, outset, left, seen=seen)
    )
    bind(ours.directory.run, log.header.epoch)
    try:
        history = left.history
        parts = AirParts(
            gate=gate,
            ledger=Ledger(history.highest(), floor=history.start),
            sinks=outset.sinks,
            log=log,
            inbox=ours.inbox,
            blocking=setup.blocking,
        )
        air = Air(parts)
        crew = _crew(approach, air, found, log.header.epoch)
        air.meet(crew.coordination, routing)
        outset.sinks.sync_beside(log.sync)
        # Before anybody obeys us: servers of another directory may be at work for its collector.
        places = await crew.coordination.places()
        require_same_place(places, ours.directory.path, ours.directory.lock_sha256)
        try:
            await crew.coordination.hello()
            continued = await _go_on(approach, crew, left, log)
        except BaseException:
            await crew.coordination.leave()
            raise
    except BaseException:
        log.close()
        raise
    return UnderControl(ours=ours, crew=crew, watch=air, log=log, continued=continued)


def look_back(directory: Directory, store: Store, outset: Outset) -> Inherited:
    """What earlier runs left for this one. Raises StorageError.

    Without regard to the input where the user accepted that it changed: it would match no checkpoint.
    """
    rung = Rung(None)
    if outset.resumed and outset.owns_checkpoints:
        accepted = "input" in outset.run_file.drift
        rung = store.find(
            input_sha256=None if accepted else outset.rows.input_sha256, output=outset.run_file.run
        )
    return inherited(directory.path, rung, outset.run_file.run, outset.read_rows(), outset.survey)


def begin_log(
    directory: Directory, store: Store, outset: Outset, left: Inherited, *, seen: int
) -> DispatchLog:
    """Take the next epoch, above the one that was `seen` at a server, and start this run's log.

    Raises StorageError.
    """
    before, history = left.sent.header, left.history
    header = DispatchHeader(
        run=directory.run,
        epoch=directory.raise_epoch(max(seen, left.epoch)),
        sequence=store.next_sequence(0 if before is None else before.sequence),
        reserved=0,
        floor=history.floor,
        start=history.start,
        used=left.sent.used,
        output=outset.run_file.run,
    )
    path = directory.path / DISPATCHED
    return start_dispatched(path, header, history.attempts(), history.answered, history.senders)


async def who_takes_part(setup: Setup, ours: LockedDirectory, routing: Routing) -> tuple[Found, ...]:
    """Ask all servers; nobody obeys us for it. Raises UsageError, CheckpointError."""
    asked = [Candidate(url) for url in routing.urls()]
    named = [Candidate(url, kind) for kind, url in setup.config.servers.participants]
    found = await discover(
        ours.client,
        [*asked, *named],
        patience_s=OWN_PATIENCE_S if is_embedded(setup.config) and not named else PATIENCE_S,
        tell=lambda text: setup.tell(Note(text)),
    )
    taking_part = {one.participant.url for one in found}
    require_kinds(found, [one.url for one in asked if one.url not in taking_part])
    return found


def _crew(approach: _Approach, air: Air, found: Sequence[Found], epoch: int) -> Crew:
    setup, ours, outset = approach.setup, approach.ours, approach.outset
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
        output=outset.run_file.run,
        input_sha256=outset.rows.input_sha256,
        timeout_s=ours.config.timeout_s,
        blocking=setup.blocking,
        listener=setup.tell,
        clock=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        moment=time.monotonic,
    )


async def _go_on(approach: _Approach, crew: Crew, left: Inherited, log: DispatchLog) -> Continued | None:
    """Restore what a checkpoint has of earlier rows, and have the rest retired before it is sent again."""
    whole, root, history = left.rung.checkpoint, approach.ours.directory.path, left.history
    episodes = () if whole is None else whole.collection.continued
    known = planned = plan(episodes, history.tried, floor=history.floor, start=history.start)
    # Not as they were found: until the hello they may have let rows of an earlier collector in.
    if not any(status.served for status in (await crew.coordination.statuses()).values()):
        # Nothing of an earlier run can run on servers that have served nobody.
        planned = msgspec.structs.replace(planned, to_retire={})
    if whole is None:
        for key, episode in planned.to_retire.items():
            crew.air.ledger.lose(key, episode)
        told = continued_of(root, None, known, 0) if approach.outset.resumed else None
        if told is not None:
            approach.setup.tell(Restored(None, None, (), told.anew))
        return told
    for sentence in left_out_of_the_cut(whole.collection.restarted, history.tried):
        approach.warn(sentence)

    def log_installs(episodes: Sequence[EpisodeId]) -> None:
        log.append(episodes)
        log.sync()

    checkpoint_id = whole.collection.checkpoint_id
    with span("restore", checkpoint=checkpoint_id):
        restoration = await restore(crew, whole, planned, log_installs)
    restored = restoration.restored
    if restored:
        approach.setup.tell(Note(f"{restored} rows go on from checkpoint {checkpoint_id}"))
    rollouts = {one.rollout_id for one in planned.continued.values()} if restored else set[str]()
    told = continued_of(root, checkpoint_id, known, restored, calls_saved(whole, rollouts))
    if told is not None:
        pairs = tuple(_before_and_after(planned)) if restored else ()
        fault, operation = restoration.fault, restoration.operation
        approach.setup.tell(Restored(operation, checkpoint_id, pairs, told.anew, fault))
    return told


def _before_and_after(planned: Plan) -> Iterator[tuple[EpisodeId, EpisodeId]]:
    for one in planned.continued.values():
        yield EpisodeId(one.rollout_id, one.attempt), EpisodeId(one.rollout_id, one.becomes)
