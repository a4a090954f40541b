"""The run: from the lock to the report. One nursery of services around one nursery of rows."""

from typing import TYPE_CHECKING

import msgspec
import trio

from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import RUN_ENDED, Ended, RowsEnd
from triocollect.collector.control import Control, NoControl
from triocollect.collector.descriptors import make_room
from triocollect.collector.finish import aggregate, checkpoints_of, nothing_to_do, report_of
from triocollect.collector.fleet import Counts, Fleet
from triocollect.collector.giving_way import giving_way, go_on_unless_stopped
from triocollect.collector.lock import LockedOutput, lock_output
from triocollect.collector.resume import Survey
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import (
    CALLERS_OWN,
    Send,
    after_a_while,
    beside,
    to_function,
    to_servers,
)
from triocollect.collector.set_out import Outset, OwnStore, set_out
from triocollect.collector.setup import Setup
from triocollect.collector.watch import Watch
from triocollect.collector.whereto import ask_head, is_embedded, look_up
from triocollect.config.settings import Config
from triocollect.durable import AppendFile
from triocollect.events import Note, Resumed, RunStarted
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing
from triocollect.report.run_report import Report
from triocollect.telemetry import begin_run, bind

if TYPE_CHECKING:
    from triocollect.collector.lock_directory import LockedDirectory  # needs httpx, which is slow


async def run(setup: Setup) -> Report:
    """Collect all rows. Raises UsageError, RefusedError, StorageError, DeploymentError, CheckpointError.

    The locks are held until every service has ended: nobody else's servers or files are met half way.
    """
    began, config = trio.current_time(), setup.config
    if setup.dispatch is None:
        make_room(config.dispatch.concurrency)
    if config.checkpoint is None:
        return await _run(setup, None, began)
    from triocollect.checkpoint.signals import listen_for_signals  # noqa: PLC0415  # not without a directory
    from triocollect.collector.lock_directory import (  # noqa: PLC0415  # needs httpx, which is slow
        lock_directory,
        open_inbox,
    )

    inbox = open_inbox(config.checkpoint, signals=setup.signals)
    try:
        async with trio.open_nursery() as listening:
            if setup.signals:
                await listening.start(listen_for_signals, inbox)
            if setup.orders is not None:
                setup.orders(inbox)
            async with lock_directory(
                config,
                inbox,
                signals=setup.signals,
                tell=setup.tell,
                control=setup.control,
            ) as ours:
                report = await _run(setup, ours, began)
            listening.cancel_scope.cancel()
        return report
    finally:
        inbox.close(RUN_ENDED)


async def _run(setup: Setup, ours: "LockedDirectory | None", began: float) -> Report:
    config, inbox, locked = setup.config, None if ours is None else ours.inbox, None
    try:
        with giving_way(inbox):
            locked = await lock_output(
                config.output.path,
                wait_s=config.output.wait_for_lock_s,
                warn=lambda text: setup.tell(Note(text, "warning")),
            )
        if locked is None:
            go_on_unless_stopped(inbox)
        assert locked is not None
    except BaseException:
        if ours is not None:
            ours.directory.back_out()
        raise
    routing, outset = await _set_out(setup, locked, ours)
    if outset is None:
        return nothing_to_do(config, seconds=trio.current_time() - began)
    if ours is None and setup.signals:
        setup.tell(Note("without --checkpoint-dir TERM, HUP and Ctrl-C lose the rows in flight"))
    bind(outset.run_file.run if ours is None else ours.directory.run)
    begin_run(outset.run_file.run)
    try:
        async with trio.open_nursery() as services:
            fleet = await _collect(setup, services, routing, outset, ours)
            services.cancel_scope.cancel()
    finally:
        outset.sinks.close()
    report = report_of(outset, fleet, config.output, seconds=trio.current_time() - began)
    checkpoints = checkpoints_of(setup.outcomes)
    return msgspec.structs.replace(report, notes=tuple(setup.warnings), checkpoints=checkpoints)


async def _set_out(
    setup: Setup, locked: LockedOutput, ours: "LockedDirectory | None"
) -> tuple[Routing | None, Outset | None]:
    routing = outset = None
    inbox = None if ours is None else ours.inbox
    try:
        if setup.dispatch is None:
            with giving_way(inbox):
                routing = await look_up(setup.config, setup.transport)
                if ours is not None and setup.config.output.overwrite and not is_embedded(setup.config):
                    from triocollect.collector.taking_control import (  # noqa: PLC0415  # needs httpx
                        who_takes_part,
                    )

                    await who_takes_part(setup, ours, routing)  # before an earlier run's results are removed
        go_on_unless_stopped(inbox)
        output = AppendFile(locked.path, descriptor=locked.descriptor)
        own = None if ours is None else OwnStore(ours.store, ours.directory.run)
        outset = set_out(setup.config, output, routing, setup.tell, own)
    finally:
        if outset is None:
            locked.give_back()
            if ours is not None:
                ours.directory.back_out()
    return routing, outset


async def _collect(
    setup: Setup,
    services: trio.Nursery,
    routing: Routing | None,
    outset: Outset,
    ours: "LockedDirectory | None",
) -> Fleet:
    config, survey, inbox = setup.config, outset.survey, None if ours is None else ours.inbox
    wants_metrics = routing is not None and not config.output.disable_aggregation
    if survey.to_send:
        outset.forget_metrics()  # of an earlier run: they would not be those of these rows
    has_work = survey.to_send > 0 or (wants_metrics and not outset.files.aggregate.exists())
    head = config.servers.head_server
    gate, ready = Gate(config.dispatch.concurrency), False
    control: Control = NoControl(Ledger(survey.used_attempts()))
    with giving_way(inbox):
        if routing is not None and is_embedded(config) and has_work:
            setup.tell(Note("Starting the servers that the rows need"))
            head = await setup.deployment(config, outset.rows, services, None if ours is None else ours.token)
            routing = await ask_head(config, setup.transport, head)
        if ours is not None and routing is not None and survey.to_send:
            from triocollect.collector.taking_control import take_control  # noqa: PLC0415  # needs httpx

            control = await take_control(setup, ours, outset, routing, gate)
        ready = True
    fleet = _fleet(setup, routing, outset, gate, control)
    if not ready and ours is not None and survey.to_send:
        # Told to stop before anything was sent: LATEST covers it.
        fleet.ended = Ended(RowsEnd.INTERRUPTED if ours.inbox.is_left else RowsEnd.PREEMPTED)
        return fleet
    setup.tell(_started(config, outset))
    await _fly(setup, outset, fleet, control)
    outset.sinks.confirm()
    await setup.blocking(outset.sinks.sync)
    if routing is not None and wants_metrics and has_work and fleet.is_done:
        await _aggregate(setup, routing, head, outset, inbox)
    return fleet


async def _fly(setup: Setup, outset: Outset, fleet: Fleet, control: Control) -> None:
    """Send what is left."""
    async with trio.open_nursery() as syncing:
        syncing.start_soon(outset.sinks.keep_synced, setup.blocking)
        syncing.start_soon(fleet.clock.run)
        longest_first = setup.config.dispatch.longest_first
        fleet.ended = await control.fly(fleet, outset, longest_first=longest_first)
        syncing.cancel_scope.cancel()


async def _aggregate(
    setup: Setup, routing: Routing, head: str | None, outset: Outset, inbox: Inbox | None
) -> None:
    async def now() -> Routing:
        return routing if head is None else await ask_head(setup.config, setup.transport, head)

    fault: str | None = "told to stop before the environment servers had aggregated the results"
    with giving_way(inbox):
        fault = await aggregate(setup.transport, now, outset.files, setup.config.output)
    if fault is not None:
        setup.tell(Note(fault, "warning"))


def _started(config: Config, outset: Outset) -> RunStarted:
    survey = outset.survey
    return RunStarted(
        run=outset.run_file.run,
        expected=survey.expected,
        done=survey.done_expected,
        given_up=survey.terminal + survey.exhausted,
        concurrency=config.dispatch.concurrency,
        resumed=_resumed(survey) if outset.resumed else None,
    )


def _resumed(survey: Survey) -> Resumed:
    lines, rows = survey.prior_attempts
    return Resumed(
        failures=lines,
        failed=rows,
        terminal=survey.terminal,
        exhausted=survey.exhausted,
        max_attempts=survey.max_rollout_attempts,
    )


def _fleet(setup: Setup, routing: Routing | None, outset: Outset, gate: Gate, control: Control) -> Fleet:
    dispatch, drift = setup.config.dispatch, outset.run_file.drift
    clock = RowClock(dispatch.row_timeout_s, stands=lambda: not gate.is_open)
    return Fleet(
        gate=gate,
        watch=control.watch,
        retries=RetryBudget(dispatch.max_attempts),
        time=TimeBudget(dispatch.budget_s, dispatch.drain_margin_s),
        sinks=outset.sinks,
        send=_send(setup, routing, outset, clock, control.watch),
        clock=clock,
        target=lambda row: CALLERS_OWN if routing is None else routing.target(row),
        tell=setup.tell,
        counts=Counts(failed=dict(outset.survey.failed), rewards=outset.rewards),
        drift=msgspec.Raw(msgspec.json.encode(drift)) if drift else None,
        hand_over=setup.hand_over,
        continued=control.continued,
    )


def _send(setup: Setup, routing: Routing | None, outset: Outset, clock: RowClock, watch: Watch) -> Send:
    if routing is None:
        assert setup.dispatch is not None
        return to_function(setup.dispatch, clock)
    reuse = outset.survey.reusable()
    headers = watch.headers if setup.headers is None else beside(watch.headers, setup.headers)
    send = to_servers(setup.transport, routing, clock, reuse=reuse, headers=headers)
    return after_a_while(send) if is_embedded(setup.config) else send
