"""Prepare and commit: everything at a boundary, then what the scope is made of, once, and its write."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
from msgspec import UNSET

from triocollect.errors import StateError
from triocollect.participant.errands import refuse
from triocollect.participant.hooks import Later, R, episode_of
from triocollect.participant.operations import Refuse
from triocollect.participant.records import Publication
from triocollect.participant.standing import Cut, Standing, over
from triocollect.protocol.messages import Commit, Committed, Kind, Prepare, Prepared, PrepareReport
from triocollect.protocol.phases import Event, Phase
from triocollect.protocol.refusals import Code

_NEARLY: Final = 0.95  # of its budget a prepare waits, so that its answer is there in time
_MS: Final = 1000.0


async def prepare(standing: Standing[R], call: Prepare, arrival: float) -> Prepared | Refuse:
    """Close, once, and wait until everything stands at a boundary or the budget is nearly used."""
    try:
        if standing.phase is Phase.OPEN:
            standing.close(call, Event.PREPARE, arrival)
        return await _settled(standing, call, arrival + _NEARLY * call.budget_ms / _MS)
    except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
        if standing.ours(call) and standing.phase is Phase.PREPARING:
            standing.back(Event.PREPARE_RAISED)
        return refuse(error)


async def _settled(standing: Standing[R], call: Prepare, until: float) -> Prepared | Refuse:
    answer: Prepared | None = None
    with standing.waiting(until) as scope:
        try:
            while answer is None and standing.ours(call) and standing.phase is Phase.PREPARING:
                report = standing.report()
                if report.blocker_count == 0:
                    answer = _ready(standing, call, report)
                else:
                    await standing.hooks.settle()
                    await anyio.lowlevel.checkpoint()  # a settle that never waits must not starve the rest
        finally:
            standing.done_waiting(scope)
    if answer is not None:
        return answer
    if not standing.ours(call) or standing.phase is Phase.OPEN:
        return over(call)
    report = standing.report()
    phase = Phase.PREPARING if standing.phase is Phase.PREPARING else Phase.PREPARED
    return Prepared(boot=standing.boot, phase=phase.value, report=report)


def _ready(standing: Standing[R], call: Prepare, report: PrepareReport) -> Prepared:
    standing.move(Event.AT_BOUNDARIES)
    standing.wake()
    answer = Prepared(boot=standing.boot, phase="prepared", report=report)
    standing.operations.answered(call, answer)
    return answer


async def commit(standing: Standing[R], call: Commit) -> Committed | Refuse:
    """Export once, then write; who repeats the call waits for the same write, or starts it again."""
    cut = standing.cut
    if cut is None:
        if (refused := _not_now(standing, call)) is not None:
            return refused
        cut = _export(standing, call)
    if cut.failed is not None:
        return cut.failed
    if cut.write is None or cut.write.done:
        cut.publication = Publication()  # one of a try that failed may have begun, and stops nothing
        cut.write = standing.write(partial(_write, standing, cut))
    return await cut.write.result()


def _not_now(standing: Standing[R], call: Commit) -> Refuse | None:
    report = standing.report()
    if report.blocker_count:
        standing.move(Event.NOT_AT_BOUNDARIES)
        standing.operations.take_back(Prepare)
        keys = ", ".join(blocker.key for blocker in report.blockers[:3])
        return Refuse(Code.NOT_READY, f"{report.blocker_count} not at a boundary any more: {keys}")
    restarts = {episode.capture_key for episode in call.scope}.intersection(report.restarts)
    if restarts:
        return Refuse(Code.RESTART_IN_SCOPE, f"cannot be captured here: {', '.join(sorted(restarts))}")
    return None


def _export(standing: Standing[R], call: Commit) -> Cut[R]:
    cut: Cut[R] = Cut(call)
    standing.cut = cut
    standing.operations.begin(call)
    standing.move(Event.COMMIT)
    try:
        exported = standing.hooks.export(cut.scope)
        if callable(exported):
            cut.coming = exported  # the write waits for it
        else:
            _take(standing, cut, exported)
    except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
        standing.move(Event.WRITE_FAILED)
        cut.failed = refuse(error)
    return cut


def _take(standing: Standing[R], cut: Cut[R], exported: Sequence[R]) -> None:
    cut.records = tuple(exported)
    cut.kept = tuple(standing.hooks.kept())
    cut.counts = standing.report().counts
    _check(cut, standing.hooks.kind)


async def _gathered(standing: Standing[R], cut: Cut[R], coming: Later[R]) -> Refuse | None:
    """Wait for the export. It is not asked for again, however it ends."""
    cut.coming = None
    try:
        exported = await coming()
        if isinstance(exported, Refuse):
            cut.failed = exported
        else:
            _take(standing, cut, exported)
    except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
        cut.failed = refuse(error)
    return cut.failed if standing.ours(cut.call) else over(cut.call)  # its end opens who was to export


def _check(cut: Cut[R], kind: Kind) -> None:
    for record in cut.records:
        episode = episode_of(record)
        if episode not in cut.scope or record.kind != kind:
            raise StateError(f"a {record.kind} record of {episode.capture_key} was not asked for")


async def _write(standing: Standing[R], cut: Cut[R]) -> Committed | Refuse:
    call = cut.call
    if cut.coming is not None and (failed := await _gathered(standing, cut, cut.coming)) is not None:
        return failed
    try:
        manifest = await standing.in_thread(
            partial(standing.shelf.write, call.checkpoint_id, call.directory, cut.records, cut.publication)
        )
        if manifest is None or not standing.ours(call):
            return over(call)
        await standing.hooks.discard(cut.scope)
    except Exception:
        if standing.ours(call):
            standing.move(Event.WRITE_FAILED)
        raise
    if not standing.ours(call):
        return over(call)
    standing.move(Event.WRITTEN)
    if call.stop:
        standing.admission.attendance.cut()
    keys = (episode_of(record).capture_key for record in cut.records)
    answer = Committed(
        boot=standing.boot,
        phase="committed",
        manifest=manifest,
        exported=tuple(dict.fromkeys(keys)),
        kept=cut.kept,
        counts=cut.counts or UNSET,
    )
    cut.records = ()  # they may be large, and are on disk
    standing.operations.answered(call, answer)
    return answer
