"""A row goes on only when everybody has said of its very attempt that it is retired."""

import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import holds
from tests.checkpoint.world import Running, world
from triocollect.checkpoint.coordination import Coordination
from triocollect.checkpoint.operation import CLOSING
from triocollect.errors import CheckpointError, ControlError
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.messages import Retired

OURS = EpisodeId("0-0", 1)
ANSWERS = {"a refusal": None, "nobody": (), "another attempt": ("0-0",), "another row": ("1-0-a1",)}


class Answering:
    """A participant that answers each retire by naming these; None: it refuses."""

    def __init__(self, kind, retired):
        self.kind, self.url, self.restarted, self._retired = kind, f"http://{kind}", None, retired

    async def post(self, verb, call, answer):
        await trio.lowlevel.checkpoint()
        assert (verb, answer, call.episodes) == ("retire", Retired, (OURS,))
        if self._retired is None:
            raise self.fault("cannot stop it")
        return Retired(boot="b", retired=self._retired)

    def fault(self, what):
        return ControlError(what, participant=self.kind)


async def is_retired(named):
    """Whether a collector believes that its attempt is, when one participant names this."""
    (first, retired), *others = named
    participants = [Answering(first, retired), *[Answering(kind, (OURS.capture_key,)) for kind in others]]
    coordination = Coordination(participants, run="r", epoch=1, lease_s=60.0, restarted=lambda _: None)
    try:
        await coordination.retire([OURS])
    except (CheckpointError, ControlError):
        return False
    return True


@pytest.mark.parametrize("who", CLOSING)
@pytest.mark.parametrize("named", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_does_not_name_the_attempt_retires_nothing(who, named):
    others = [kind for kind in CLOSING if kind != who]
    believed = trio.run(is_retired, [(who, named), *others])
    holds(7, not believed, f"{OURS.capture_key} is sent again, and {who} said {named} of it")
    assert trio.run(is_retired, [(who, (OURS.capture_key,)), *others])


async def is_sent_again(root, who, fails):
    """Whether a row may go on while one participant fails to retire its attempt, or hangs."""
    async with world(root) as here, trio.open_nursery() as nursery:
        here.servers[who].stop_waits = waits = trio.Event()
        if fails:
            here.servers[who].stopped = None  # its hook breaks of that
            waits.set()
        Running(here, nursery)
        here.fly(0)
        here.air.ledger.no_reply(RowKey(0, 0))
        here.inbox.retire()
        await trio.sleep(40)  # longer than it is waited for
        sent_again = RowKey(0, 0) not in here.air.ledger.lost
        nursery.cancel_scope.cancel()
    return sent_again


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "hangs"])
@pytest.mark.parametrize("who", CLOSING)
def test_a_retire_that_fails_at_one_is_none(tmp_path, who, fails):
    sent_again = trio.run(is_sent_again, tmp_path, who, fails, clock=MockClock(autojump_threshold=0))
    holds(7, not sent_again, f"{OURS.rollout_id} may be sent again, and {who} has not stopped it")
