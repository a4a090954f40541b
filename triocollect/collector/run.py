"""The run: from the lock to the report. One nursery of services around one nursery of rows."""

import os
from collections.abc import Iterable

import msgspec
import trio
from attrs import field, frozen

from triocollect.collector.dispatch import Counts, Fleet, HandOver, fly
from triocollect.collector.earlier import Files
from triocollect.collector.finish import aggregate, nothing_to_do, report_of
from triocollect.collector.lock import LockedOutput, lock_output
from triocollect.collector.resume import Standing
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
from triocollect.rows.types import Row
from triocollect.transport import Transport


@frozen(kw_only=True)
class Order:
    """What is to be run. `dispatch`: the caller sends rows itself; `hand_over` waits for the caller."""

    config: Config
    transport: Transport
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
    """Collect all rows. Raises UsageError, RefusedError, StorageError, DeploymentError."""
    began = trio.current_time()
    async with trio.open_nursery() as services:
        report = await _run(order, services, began)
        services.cancel_scope.cancel()
    return msgspec.structs.replace(report, notes=(*report.notes, *order.warnings))


async def _run(order: Order, services: trio.Nursery, began: float) -> Report:
    config = order.config
    locked = await lock_output(
        config.output.path,
        wait_s=config.output.wait_for_lock_s,
        warn=lambda text: order.tell(Note(text, "warning")),
    )
    routing, outset = await _set_out(order, locked)
    if outset is None:
        return nothing_to_do(Files(config.output.path), seconds=trio.current_time() - began)
    try:
        return await _collect(order, services, routing, outset, began)
    finally:
        outset.sinks.close()


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


async def _collect(
    order: Order, services: trio.Nursery, routing: Routing | None, outset: Outset, began: float
) -> Report:
    config, standing, transport = order.config, outset.standing, order.transport
    given_up = standing.terminal + standing.exhausted
    to_send = standing.expected - standing.done_expected - given_up
    head = config.servers.head_server
    if routing is not None and is_embedded(config) and to_send:
        head = await bring_up(config, outset.rows, services)
        routing = await ask_head(config, transport, head)
    order.tell(
        RunStarted(
            run=outset.run_file.run,
            expected=standing.expected,
            done=standing.done_expected,
            given_up=given_up,
            concurrency=config.dispatch.concurrency,
            resumed=_resumed(standing) if outset.resumed else None,
        )
    )
    fleet = _fleet(order, routing, outset)
    services.start_soon(outset.sinks.keep_synced, order.blocking)
    await _fly_all(fleet, outset, longest_first=config.dispatch.longest_first)
    await order.blocking(outset.sinks.sync)
    if routing is not None and not config.output.disable_aggregation and to_send:
        if head is not None:
            routing = await ask_head(config, transport, head)  # names may have moved while rows ran
        if (fault := await aggregate(transport, routing, outset.files, config.output)) is not None:
            order.tell(Note(fault, "warning"))
    seconds = trio.current_time() - began
    return report_of(outset, fleet.counts, fleet.retries, config.output, seconds=seconds)


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
    drift = outset.run_file.drift
    return Fleet(
        gate=Gate(dispatch.concurrency),
        ledger=Ledger(outset.standing.used_attempts()),
        retries=RetryBudget(dispatch.max_attempts),
        time=TimeBudget(dispatch.budget_s, dispatch.drain_margin_s),
        sinks=outset.sinks,
        send=_send(order, routing, outset),
        target=lambda row: CALLERS_OWN if routing is None else routing.target(row),
        tell=order.tell,
        counts=Counts(failed=dict(outset.standing.failed)),
        drift=msgspec.Raw(msgspec.json.encode(drift)) if drift else None,
        hand_over=order.hand_over,
    )


def _send(order: Order, routing: Routing | None, outset: Outset) -> Send:
    timeout_s = order.config.dispatch.row_timeout_s
    if routing is None:
        assert order.dispatch is not None
        return to_function(order.dispatch, row_timeout_s=timeout_s)
    reuse = outset.standing.reusable()
    return to_servers(order.transport, routing, row_timeout_s=timeout_s, reuse=reuse)


async def _fly_all(fleet: Fleet, outset: Outset, *, longest_first: bool) -> None:
    """All rows that are left, in input order or longest first; a task only for a row that was let in."""
    standing = outset.standing
    async with trio.open_nursery() as nursery:
        if longest_first:
            known = standing.longest_first(outset.read_rows())
            rest = (
                row for row in standing.left(outset.read_rows()) if not standing.has_known_length(row.key)
            )
            started = await _feed(fleet, nursery, known) and await _feed(fleet, nursery, rest)
        else:
            started = await _feed(fleet, nursery, standing.left(outset.read_rows()))
    if not started:
        fleet.tell(Note("the dispatch budget is spent: rows are left for the next run", "warning"))


async def _feed(fleet: Fleet, nursery: trio.Nursery, rows: Iterable[Row]) -> bool:
    """False when the time for starting rows was over before the rows were."""
    for row in rows:
        await fleet.gate.enter(row.key)
        if fleet.is_over():
            fleet.gate.leave(row.key)
            return False
        nursery.start_soon(fly, fleet, row)
    return True
