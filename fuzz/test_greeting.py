"""A run's first word reaches everybody: what an earlier collector has left closed opens by it."""

import pytest
import trio

from fuzz.invariants import holds
from triocollect.checkpoint.coordination import Coordination
from triocollect.checkpoint.operation import CLOSING
from triocollect.protocol.messages import Greeted


class Closed:
    """A participant that a collector left closed when it died; it opens for the next one's hello."""

    def __init__(self, kind, order):
        self.kind, self.url, self.restarted, self.is_open = kind, f"http://{kind}", None, False
        self._order = order

    async def post(self, verb, call, answer):
        await trio.lowlevel.checkpoint()
        assert (verb, answer, call.operation) == ("hello", Greeted, 0)
        self._order.append(self.kind)
        self.is_open = True


@pytest.mark.parametrize("twice", CLOSING)
def test_a_collector_greets_every_participant_and_environments_first(twice):
    order = []
    participants = [Closed(kind, order) for kind in (*CLOSING, twice)]
    coordination = Coordination(participants, run="r", epoch=2, lease_s=60.0, restarted=lambda _: None)
    trio.run(coordination.hello)
    closed = [one.kind for one in participants if not one.is_open]
    holds(8, not closed, f"{closed} were left closed, and the next collector does not greet them")
    environments = order.count("environment")
    holds(8, set(order[:environments]) == {"environment"}, f"others were taken before environments: {order}")
