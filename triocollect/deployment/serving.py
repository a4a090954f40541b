"""A deployment that stands by itself, for collectors elsewhere: `triocollect serve`."""

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import trio
from attrs import evolve

from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import ENVIRONMENT, Plan, plan_for, resources_servers
from triocollect.deployment.processes import deploy
from triocollect.errors import TriocollectError
from triocollect.protocol.handed_down import TOLD_AFTER_S, waited, waiting

HEAD_PORT: Final = 11000  # where Gym 0.7.0's collector looks for a head


def standing_plan(
    servers: ServersConfig, *, host: str = "127.0.0.1", ports: Mapping[str, int] | None = None
) -> Plan:
    """Every source there is, the head where a collector looks for it; `ports` by process name win."""
    return evolve(
        plan_for(resources_servers(servers), servers),
        host=host,
        ports={ENVIRONMENT: HEAD_PORT, **(ports or {})},
    )


async def serve_all(
    plan: Plan,
    on_ready: Callable[[str], None],
    grace_s: float = 0.0,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` gets the head's base URL. Raises what `deploy` raises.

    Told to end while a collector is at work, the servers wait until it has cut what it stops with, or has
    ended: at most `grace_s`, or until they are told again; `tell` hears of it. While they are starting nobody
    can be at work.
    """
    failures: list[BaseException] = []
    ready, leave = trio.Event(), trio.Event()

    async def start() -> None:
        on_ready(await nursery.start(_served, plan, leave, nursery.cancel_scope))
        ready.set()

    try:
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as arrivals:
                nursery.start_soon(start)
                await anext(arrivals)
                if ready.is_set():
                    leave.set()
                    await _let_leave(arrivals, grace_s, tell)
                nursery.cancel_scope.cancel()
    except* TriocollectError as group:
        failures.extend(group.exceptions)
    if failures:
        raise failures[0]


async def _let_leave(arrivals: AsyncIterator[int], grace_s: float, tell: Callable[[str], None]) -> None:
    with trio.move_on_after(grace_s) as patience:
        with trio.move_on_after(TOLD_AFTER_S) as soon:
            await anext(arrivals)
        if soon.cancelled_caught:
            tell(f"the servers are ending; if a collector is at work, {waiting(grace_s)}")
            await anext(arrivals)
    if patience.cancelled_caught and grace_s:
        tell(f"not every server has ended: {waited(grace_s)}")


async def _served(
    plan: Plan, leave: trio.Event, whole: trio.CancelScope, *, task_status: trio.TaskStatus[str]
) -> None:
    await deploy(plan, leave=leave, task_status=task_status)
    whole.cancel()  # they have all left
