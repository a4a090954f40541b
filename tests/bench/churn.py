"""Requests cancelled for seconds on end, then a hundred that must all succeed, with no descriptor lost.

A pool that loses a connection at a cancellation serves nobody after a while. Here requests are given up at
every stage: before the connection stands, while the request goes out, while the reply is awaited, while it
comes in. Figures are the worst of the rounds: `succeeded` the fewest, `fds_max` the most descriptors that
this process had open at any look; `n` counts the requests given up in all.
"""

import random
from pathlib import Path
from typing import Final

import trio

from tests.bench.harness import Figures, Plan, Result, told
from tests.bench.serving import Stub, stub
from triocollect.errors import TransportError
from triocollect.transport import Transport

CASES: Final = ("trio",)
_CONCURRENCY: Final = 16
_AFTER: Final = 100
_FDS_ALLOWED: Final = 32 + 2 * _CONCURRENCY
_REPLY_BYTES: Final = 200_000  # comes in many pieces, so that many are given up in the middle of a reply
_DELAY_S: Final = 0.005
_PATIENCE_S: Final = 0.02  # the longest that a request is given here; some have less than the stub's delay
_AFTER_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.05
_DESCRIPTORS: Final = Path("/proc/self/fd")


def measure_case(_case: str, plan: Plan) -> Result:
    """Never raises for a request that fails afterwards: that is the figure."""
    seconds = plan.size(20, 2)
    cancelled, rounds = 0, list[Figures]()
    for nth in range(plan.rounds):
        with stub(reply_bytes=_REPLY_BYTES, delay_s=_DELAY_S) as server:
            churn = Churn(server, random.Random(nth))
            trio.run(churn.live, seconds)
        cancelled += churn.cancelled
        rounds.append(told("ours", {"succeeded": churn.succeeded, "fds_max": churn.fds_max}))
    worst: Figures = {
        "succeeded": min(figures["succeeded"] for figures in rounds),
        "of": _AFTER,
        "fds_max": max(figures["fds_max"] for figures in rounds),
        "fds_allowed": _FDS_ALLOWED,
    }
    return Result(cancelled, worst)


class Churn:
    """One round, and what was counted in it."""

    def __init__(self, server: Stub, dice: random.Random) -> None:
        self._url, self._dice = f"{server.url}/run", dice
        self.cancelled = self.succeeded = self.fds_max = 0

    async def live(self, seconds: float) -> None:
        """Give up requests for so long, then send those that count."""
        transport = Transport()
        async with trio.open_nursery() as services:
            services.start_soon(self._look)
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as impatient:
                    for _ in range(_CONCURRENCY):
                        impatient.start_soon(self._give_up_for_ever, transport)
            places = trio.CapacityLimiter(_CONCURRENCY)
            async with trio.open_nursery() as patient:
                for _ in range(_AFTER):
                    patient.start_soon(self._count, transport, places)
            services.cancel_scope.cancel()
        await transport.aclose()

    async def _give_up_for_ever(self, transport: Transport) -> None:
        while True:
            with trio.move_on_after(self._dice.uniform(0, _PATIENCE_S)) as patience:
                await transport.post(self._url, b'{"_ng_task_index":0}')
            self.cancelled += patience.cancelled_caught

    async def _count(self, transport: Transport, places: trio.CapacityLimiter) -> None:
        async with places:
            with trio.move_on_after(_AFTER_PATIENCE_S):
                try:
                    reply = await transport.post(self._url, b'{"_ng_task_index":0}')
                except TransportError:
                    return
                self.succeeded += reply.status == 200 and len(reply.body) > _REPLY_BYTES // 2

    async def _look(self) -> None:
        while True:
            self.fds_max = max(self.fds_max, len(list(_DESCRIPTORS.iterdir())))
            await trio.sleep(_LOOK_S)
