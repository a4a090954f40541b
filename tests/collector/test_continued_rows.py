"""Rows that go on from a checkpoint: what it costs them when their server has not kept what it restored."""

import msgspec
import pytest
import trio

from triocollect.collector.continuing import refused_since
from triocollect.collector.dispatch import MOST_KNOCKS, fly
from triocollect.collector.fleet import Counts, Fleet
from triocollect.collector.outcome import NothingRan, Refused, Success
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
from triocollect.report.run_report import Continued
from triocollect.rows.types import parse_row

ROWS = [
    parse_row(
        msgspec.json.encode({"agent_ref": {"name": "a"}, "_ng_task_index": task, "_ng_rollout_index": 0})
    )
    for task in range(10)
]


async def fly_all(folder, answer):
    """Ten rows, all of them continued as attempt 1; the fleet afterwards, and the attempts that were sent."""
    sent = {row.key: [] for row in ROWS}

    async def send(row, episode):
        await trio.lowlevel.checkpoint()
        sent[row.key].append(episode.attempt)
        return answer(row, sent[row.key])

    sinks = Sinks(AppendFile(folder / "out.jsonl"), AppendFile(folder / "failures.jsonl"))
    fleet = Fleet(
        gate=Gate(10), watch=Unwatched(Ledger()), retries=RetryBudget(3), time=TimeBudget(None, None),
        sinks=sinks, send=send, clock=RowClock(None), target=lambda _: CALLERS_OWN, tell=lambda _: None,
        counts=Counts(failed={}, rewards=RewardMean()),
    )  # fmt: skip
    fleet.ledger.restore((row.key, EpisodeId(row.rollout_id, 1)) for row in ROWS)
    async with trio.open_nursery() as nursery:
        for row in ROWS:
            await fleet.gate.enter(row.key)
            nursery.start_soon(fly, fleet, row)
    sinks.close()
    return fleet, list(sent.values())


@pytest.mark.parametrize(
    ("refused", "next_attempt"),
    [
        (Refused("not_restored", "nothing was restored"), 2),
        (Refused("stale_attempt", "retired up to 6", retired_through=6), 7),
    ],
)
async def test_what_a_server_has_not_kept_starts_from_its_input_and_costs_no_row_a_send(
    tmp_path, autojump_clock, refused, next_attempt
):
    fleet, sent = await fly_all(tmp_path, lambda _, sent: refused if len(sent) == 1 else Success({}, 1.0))
    assert sent == [[1, next_attempt]] * 10
    assert (fleet.counts.succeeded_now, fleet.counts.failed_now, fleet.retries.sends) == (10, 0, 10)
    told = Continued(rows=12, anew=1, work_s=9.0, calls_saved=3)
    assert refused_since(told, fleet.counts.not_continued) == Continued(rows=2, anew=11)


async def test_a_row_that_is_refused_again_and_again_is_given_up(tmp_path, autojump_clock):
    fleet, sent = await fly_all(
        tmp_path, lambda row, _: Refused("stale_attempt", "retired") if not row.key.task else Success({}, 1.0)
    )
    assert sent == [[1, 2, 3, 4]] + [[1]] * 9, "the first refusal costs nothing, then it has three sends"
    assert (fleet.counts.succeeded_now, fleet.counts.failed_now) == (9, 1)


async def test_a_server_that_is_not_there_yet_is_waited_for_and_what_was_restored_stays(
    tmp_path, autojump_clock
):
    fleet, sent = await fly_all(tmp_path, lambda *_: NothingRan("refused", "nobody is there"))
    assert sent == [[1] * (MOST_KNOCKS + 1)] * 10
    assert len(fleet.ledger.restored) == 10
    assert (fleet.counts.failed_now, fleet.retries.sends) == (0, 0)
