"""The ways in which a coordinator, or one of its workers, is a process."""

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from triocollect.errors import UsageError
from triocollect.participant import Hooks
from triocollect.protocol.manifests import Record
from triocollect.servers.serve import make_app, nobody_needs, owner_gone, told_to_end
from triocollect.servers.workers.keeping import LAST_RESORT_S, Crewed, Keeper
from triocollect.servers.workers.places import Place
from triocollect.servers.workers.worker import run_worker


def run_crew_child(crewed: Crewed, tell: Callable[[str], None]) -> None:
    """Keep the workers of a server for as long as the owner of this process lives."""
    keeper = _keeper(crewed, tell)
    until_free = partial(nobody_needs, keeper.attendance)
    trio.run(keeper.serve, partial(owner_gone, until_free, LAST_RESORT_S), 0.0)


def run_crew_alone(crewed: Crewed, grace_s: float, tell: Callable[[str], None]) -> None:
    """Keep them until SIGTERM or SIGINT, and for `grace_s` as long as a collector needs them."""
    keeper = _keeper(crewed, tell)
    trio.run(keeper.serve, partial(told_to_end, partial(nobody_needs, keeper.attendance), grace_s, tell))


def run_one(kind: str, settings: bytes, fd: int, place: bytes) -> None:
    """Be a worker. `place` is what the coordinator says beside the settings, as JSON."""
    run_worker(kind, make_app(kind, settings), fd, msgspec.json.decode(place, type=Place))


def _keeper(crewed: Crewed, tell: Callable[[str], None]) -> Keeper[Record]:
    """Raises UsageError for what the server does not take, before a worker is started."""
    app = make_app(crewed.kind, crewed.settings)
    if not hasattr(app.state, "hooks"):
        raise UsageError(f"the {crewed.kind} server has no workers: it is one process")
    hooks: Hooks[Record] = app.state.hooks  # whatever more its records have
    return Keeper(crewed, hooks, tell)
