"""The run: from the lock to the report. One nursery of services around one nursery of rows."""

import os

import msgspec
import trio
from attrs import field, frozen

from triocollect.collector.descriptors import make_room
from triocollect.collector.earlier import Files
from triocollect.collector.feed import fly_all
from triocollect.collector.finish import aggregate, nothing_to_do, report_of
from triocollect.collector.fleet import Counts, Fleet, HandOver
from triocollect.collector.lock import LockedOutput, lock_output
from triocollect.collector.resume import Standing
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import CALLERS_OWN, Dispatch, Send, to_function, to_servers
from triocollect.collector.set_out import Outset, set_out
from triocollect.collector.sinks import Blocking, in_a_thread
from triocollect.collector.whereto import ask_head, bring_up, is_embedded, look_up
from triocollect.config.settings import Config
from triocollect.durable import AppendFile
from triocollect.events import Event, Listener, Note, Resumed, RunStarted
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.gym.routing import Routing
from triocollect.report.run_report import Report
from triocollect.transport import Client


@frozen(kw_only=True)
class Order:
    """What is to be run. `dispatch`: the caller sends rows itself; `hand_over` waits for the caller."""

    config: Config
    transport: Client
    listener: Listener
    dispatch: Dispatch | None = None
    hand_over: HandOver | None = None
    blocking: Blocking = in_a_thread
    warnings: list[str] = field(factory=list)

    def tell(self, event: Event) -> None:
        """To whoever listens; warnings are kept for the report."""
        if isinstance(event, Note) and event.level == "warning":
            self.warnings.append(event.text)
        self.listener(event)


async def run(order: Order) -> Report:
    """Collect all rows. Raises UsageError, RefusedError, StorageError, DeploymentError.

    The lock is held until every service has ended: nobody else's servers or files are met half way.
    """
    began, config = trio.current_time(), order.config
    if order.dispatch is None:
        make_room(config.dispatch.concurrency)
    locked = await lock_output(
        config.output.path,
        wait_s=config.output.wait_for_lock_s,
        warn=lambda text: order.tell(Note(text, "warning")),
    )
    routing, outset = await _set_out(order, locked)
    if outset is None:
        return nothing_to_do(Files(config.output.path), seconds=trio.current_time() - began)
    try:
        async with trio.open_nursery() as services:
            fleet = await _collect(order, services, routing, outset)
            services.cancel_scope.cancel()
    finally:
        outset.sinks.close()
    report = report_of(outset, fleet, config.output, seconds=trio.current_time() - began)
    return msgspec.structs.replace(report, notes=tuple(order.warnings))


async def _set_out(order: Order, locked: LockedOutput) -> tuple[Routing | None, Outset | None]:
    outset = None
    try:
        routing = None if order.dispatch is not None else await look_up(order.config, order.transport)
        output = AppendFile(locked.path, descriptor=locked.descriptor)
        outset = set_out(order.config, output, routing, order.tell)
    finally:
        if outset is None:
            locked.back_out()
            os.close(locked.descriptor)
    return routing, outset


async def _collect(order: Order, services: trio.Nursery, routing: Routing | None, outset: Outset) -> Fleet:
    config, standing = order.config, outset.standing
    wants_metrics = routing is not None and not config.output.disable_aggregation
    if standing.to_send:
        outset.forget_metrics()  # of an earlier run: they would not be those of these rows
    has_work = standing.to_send > 0 or (wants_metrics and not outset.files.aggregate.exists())
    head = config.servers.head_server
    if routing is not None and is_embedded(config) and has_work:
        head = await bring_up(config, outset.rows, services)
        routing = await ask_head(config, order.transport, head)
    order.tell(_started(config, outset))
    fleet = _fleet(order, routing, outset)
    async with trio.open_nursery() as syncing:
        syncing.start_soon(outset.sinks.keep_synced, order.blocking)
        syncing.start_soon(fleet.clock.run)
        await fly_all(fleet, outset, longest_first=config.dispatch.longest_first)
        syncing.cancel_scope.cancel()
    outset.sinks.confirm()
    await order.blocking(outset.sinks.sync)
    if routing is not None and wants_metrics and has_work:
        await _aggregate(order, routing, head, outset)
    return fleet


async def _aggregate(order: Order, routing: Routing, head: str | None, outset: Outset) -> None:
    async def now() -> Routing:
        return routing if head is None else await ask_head(order.config, order.transport, head)

    fault = await aggregate(order.transport, now, outset.files, order.config.output)
    if fault is not None:
        order.tell(Note(fault, "warning"))


def _started(config: Config, outset: Outset) -> RunStarted:
    standing = outset.standing
    return RunStarted(
        run=outset.run_file.run,
        expected=standing.expected,
        done=standing.done_expected,
        given_up=standing.terminal + standing.exhausted,
        concurrency=config.dispatch.concurrency,
        resumed=_resumed(standing) if outset.resumed else None,
    )


def _resumed(standing: Standing) -> Resumed:
    lines, rows = standing.prior_attempts
    return Resumed(
        failures=lines,
        failed=rows,
        terminal=standing.terminal,
        exhausted=standing.exhausted,
        max_attempts=standing.max_rollout_attempts,
    )


def _fleet(order: Order, routing: Routing | None, outset: Outset) -> Fleet:
    dispatch = order.config.dispatch
    drift, clock = outset.run_file.drift, RowClock(dispatch.row_timeout_s)
    return Fleet(
        gate=Gate(dispatch.concurrency),
        ledger=Ledger(outset.standing.used_attempts()),
        retries=RetryBudget(dispatch.max_attempts),
        time=TimeBudget(dispatch.budget_s, dispatch.drain_margin_s),
        sinks=outset.sinks,
        send=_send(order, routing, outset, clock),
        clock=clock,
        target=lambda row: CALLERS_OWN if routing is None else routing.target(row),
        tell=order.tell,
        counts=Counts(failed=dict(outset.standing.failed), rewards=outset.rewards),
        drift=msgspec.Raw(msgspec.json.encode(drift)) if drift else None,
        hand_over=order.hand_over,
    )


def _send(order: Order, routing: Routing | None, outset: Outset, clock: RowClock) -> Send:
    if routing is None:
        assert order.dispatch is not None
        return to_function(order.dispatch, clock)
    return to_servers(order.transport, routing, clock, reuse=outset.standing.reusable())
