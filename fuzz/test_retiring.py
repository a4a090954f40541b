"""A row goes on only when everybody has said of its very attempt that it is retired."""

import pytest
import trio

from fuzz.invariants import holds
from triocollect.checkpoint.coordination import Coordination
from triocollect.checkpoint.operation import CLOSING
from triocollect.errors import CheckpointError, ControlError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Retired

OURS = EpisodeId("0-0", 1)
ANSWERS = {"nobody": (), "another attempt": ("0-0",), "another row": ("1-0-a1",)}


class Answering:
    """A participant that answers each retire by naming these."""

    def __init__(self, kind, retired):
        self.kind, self.url, self.restarted, self._retired = kind, f"http://{kind}", None, retired

    async def post(self, verb, call, answer):
        await trio.lowlevel.checkpoint()
        assert (verb, answer, call.episodes) == ("retire", Retired, (OURS,))
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
    holds(7, not believed, f"{OURS.capture_key} is sent again, and {who} said that {named} is retired")
    assert trio.run(is_retired, [(who, (OURS.capture_key,)), *others])
