"""Rows are restored when everybody has installed their parts and lives on, and else not one of them."""

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import all_hold, holds
from tests.checkpoint.world import KINDS, world
from triocollect.checkpoint.orders import Published
from triocollect.checkpoint.plan import Tried, plan
from triocollect.checkpoint.restore import restore
from triocollect.errors import StateError
from triocollect.protocol.ids import EpisodeId, RowKey

KEYS = [RowKey(0, 0), RowKey(1, 0)]
BECOME = [EpisodeId(str(key), 1) for key in KEYS]


def refuses(here, kind):
    """It installs nothing."""
    here.servers[kind].refuses_install = StateError("the records are not mine")


def is_not_reached(here, kind):
    here.network.faults[f"{kind} restore"] = ["unreachable"] * 10


def hangs(here, kind):
    here.network.faults[f"{kind} restore"] = ["stuck"] * 10


def restarts(here, kind):
    """As it is opened: what it had installed went with its process."""
    here.network.faults[f"{kind} resume"] = [lambda: here.restart_server(kind)]


async def restored_although(root, fault, kind):
    """Run, stop, begin anew and restore with a fault; what the ledger holds then, and who keeps what."""
    async with world(root) as here:
        for task in range(len(KEYS)):
            here.fly(task)
        assert isinstance(await here.take(stop=True), Published)
        for each in KINDS:
            await here.restart_server(each)
        await here.take_over(epoch=2)
        found = here.store.find().checkpoint
        tried = {str(key): Tried(key=key, highest=0, sent=0) for key in KEYS}
        here.know(dict.fromkeys(KEYS, 0))
        fault(here, kind)
        continued = plan(found.collection.continued, tried)
        done = await restore(here.crew, found, continued, lambda episodes: None)
        here.inbox.rows_done()
        went_on = {*here.air.ledger.restored.values()}
        await here.command()
        return done.restored, went_on, [one for one in KINDS if here.servers[one].held]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [refuses, is_not_reached, hangs])
def test_what_one_participant_has_not_installed_goes_on_nowhere(tmp_path, fault, kind):
    count, went_on, kept = trio.run(
        restored_although, tmp_path, fault, kind, clock=MockClock(autojump_threshold=0)
    )
    words = (
        f"{count} rows go on as {sorted(went_on)}, and of them the {kind} has nothing: it {fault.__name__}"
    )
    all_hold((10, 13), not count and not went_on, words)
    holds(10, not kept, f"a restore failed, and {kept} keep what they had installed")


@pytest.mark.parametrize("kind", KINDS)
def test_who_restarts_after_its_install_has_its_rows_begin_anew(tmp_path, kind):
    count, went_on, kept = trio.run(
        restored_although, tmp_path, restarts, kind, clock=MockClock(autojump_threshold=0)
    )
    words = f"{count} rows go on as {sorted(went_on)}, and the part of the {kind} went with its process"
    all_hold((10, 13), not count and not went_on, words)
    holds(10, not kept, f"a restore failed, and {kept} keep what they had installed")
