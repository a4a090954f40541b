"""Where rows go: a head that is asked, one server that is named, or the embedded deployment."""

import os
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final, TypeAlias

import trio
from attrs import evolve

from triocollect.config.settings import Config
from triocollect.deployment.plan import (
    AGENT,
    ENVIRONMENT,
    MODEL,
    Address,
    Plan,
    head_yaml,
    plan_for,
    resources_servers,
)
from triocollect.deployment.processes import deploy
from triocollect.deployment.telling import further
from triocollect.deployment.variables import as_asked
from triocollect.errors import DeploymentError, UsageError
from triocollect.gym.config_tree import GymConfig, parse_config
from triocollect.gym.head import HEAD_PATIENCE_S, fetch_config, silent
from triocollect.gym.observability import fields_unsupported
from triocollect.gym.routing import Router, Routing, SingleServer
from triocollect.rows.materialize import Materialized
from triocollect.transport import Client

# Starts the servers that these rows need, in the nursery, and returns the base URL of their head, which
# answers. With a control token they take part in checkpoints.
Deployment: TypeAlias = Callable[[Config, Materialized, trio.Nursery, str | None], Awaitable[str]]

_GO_ON: Final = "Every result that was written stays; to continue, give the same command again."
_FALSE: Final = {"", "0", "false"}  # Gym 0.7.0: any other text waives the pairing
_NOT_YET: Final = Address("127.0.0.1", 9)  # names are checked before anything is started; ports come with it


async def look_up(config: Config, transport: Client) -> Routing:
    """What can be known before rows are read. Raises UsageError where the head cannot be asked."""
    if config.servers.environment_url is not None:
        return SingleServer(config.servers.environment_url)
    if config.servers.head_server is not None:
        return await ask_head(config, transport, config.servers.head_server)
    sources = resources_servers(config.servers)
    return _router(config, _embedded(tuple(sources)))


@cache
def _embedded(sources: tuple[str, ...]) -> GymConfig:
    """The servers that an embedded deployment may have, the same for every run of this process."""
    places = dict.fromkeys((ENVIRONMENT, AGENT, MODEL, *sources), _NOT_YET)
    return parse_config(head_yaml(sources, places), environ={}, origin="embedded deployment")


def is_embedded(config: Config) -> bool:
    """Whether the run starts its own servers: no server was named."""
    return config.servers.environment_url is None and config.servers.head_server is None


async def bring_up(
    config: Config, rows: Materialized, services: trio.Nursery, control_token: str | None = None
) -> str:
    """Start the embedded deployment that these rows need; the base URL of its head, which answers.

    With a control token it takes part in checkpoints. The death of a server ends the run: all that happens in
    the nursery is cancelled at once, before rows fail of it one by one, and DeploymentError is raised there.
    """
    names = {route.agent or route.source or route.server for route in rows.routes}
    plan = plan_for(sorted(name for name in names if name is not None), config.servers)
    plan = evolve(plan, telemetry=further(config.telemetry, 1))
    if config.checkpoint is not None:
        plan = evolve(plan, checkpoint_dir=config.checkpoint.dir.absolute(), control_token=control_token)
    head: str = await services.start(_until_a_death, as_asked(plan), services.cancel_scope)
    return head


async def _until_a_death(plan: Plan, run: trio.CancelScope, *, task_status: trio.TaskStatus[str]) -> None:
    try:
        await deploy(plan, on_death=lambda _: run.cancel(), task_status=task_status)
    except DeploymentError as death:
        raise DeploymentError(f"{death}\n{_GO_ON}") from None


async def ask_head(config: Config, transport: Client, head: str) -> Router:
    """Routing by the head's present configuration. Raises UsageError."""
    with trio.move_on_after(HEAD_PATIENCE_S):
        return _router(config, await fetch_config(transport, head))
    raise silent(head)


def _router(config: Config, tree: GymConfig) -> Router:
    if faults := fields_unsupported(tree):
        raise UsageError("\n".join(faults))
    waived = os.environ.get("NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING", "").strip().lower() not in _FALSE
    return Router(tree, config.routing, allow_unsupported_pairing=waived)
