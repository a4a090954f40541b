"""A restored row that meets a closed door, or nobody yet, goes on from its boundary when it is let in."""

import msgspec
import pytest
import trio
from trio.testing import MockClock

from fuzz.invariants import all_hold, holds
from triocollect.collector.dispatch import fly
from triocollect.collector.fleet import Counts, Fleet
from triocollect.collector.outcome import Closed, NothingRan, Success
from triocollect.collector.row_clock import RowClock
from triocollect.collector.send import CALLERS_OWN
from triocollect.collector.sinks import Sinks
from triocollect.collector.watch import Unwatched
from triocollect.durable import AppendFile
from triocollect.flight.budget import RetryBudget, TimeBudget
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.metrics import RewardMean
from triocollect.protocol.ids import EpisodeId
from triocollect.rows.types import parse_row

INDICES = {"agent_ref": {"name": "a"}, "_ng_task_index": 0, "_ng_rollout_index": 0}
RESTORED = EpisodeId("0-0", 3)
KNOCKS = (Closed("a checkpoint is taken"), NothingRan("refused", "nobody is there"))


async def sends(folder, knocks):
    """The attempts that are sent, and whether each says that it goes on; the last one is let in."""
    row, sent, answers = parse_row(msgspec.json.encode(INDICES)), [], [*knocks, Success({}, 1.0)]
    sinks = Sinks(AppendFile(folder / "out.jsonl"), AppendFile(folder / "failures.jsonl"))

    async def send(row, episode):
        await trio.lowlevel.checkpoint()
        sent.append((episode, row.key in fleet.ledger.continuing))
        return answers.pop(0)

    fleet = Fleet(
        gate=Gate(1), watch=Unwatched(Ledger()), retries=RetryBudget(3), time=TimeBudget(None, None),
        sinks=sinks, send=send, clock=RowClock(None), target=lambda _: CALLERS_OWN, tell=lambda _: None,
        counts=Counts(failed={}, rewards=RewardMean()),
    )  # fmt: skip
    fleet.ledger.restore([(row.key, RESTORED)])
    await fleet.gate.enter(row.key)
    await fly(fleet, row)
    sinks.close()
    return sent


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("knock", KNOCKS, ids=["closed", "nobody there"])
def test_it_knocks_as_the_attempt_that_was_restored_until_it_is_let_in(tmp_path, knock, times):
    sent = trio.run(sends, tmp_path, [knock] * times, clock=MockClock(autojump_threshold=0))
    attempts = {episode for episode, _ in sent}
    holds(10, attempts == {RESTORED}, f"{RESTORED.capture_key} was restored, and sent are {attempts}")
    says_so = all(continues for _, continues in sent)
    all_hold((10, 12), says_so, "it is sent again without a word that it goes on: it begins anew")
    assert len(sent) == times + 1
