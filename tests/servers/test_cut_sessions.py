"""Sessions that are cut in two: on a fresh server each goes on exactly as it does where it was cut."""

import json

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.servers.cutting import Rollout, crew, effects
from triocollect.deployment import datasets
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.resources.blackjack import BlackjackSource
from triocollect.servers.resources.sql import SqlSource

SOURCES = {"blackjack": BlackjackSource(), "sql": SqlSource()}


def a_row(source):
    """One that takes many turns; of the database's, one whose transaction is undone."""
    rows = [json.loads(line) for line in datasets.path(source).read_bytes().splitlines()]
    row = next(row for row in rows if row.get("hands") == 5 or "undo the transaction" in json.dumps(row))
    return {**row, "agent_ref": {"name": f"{source}_agent"}, "_ng_rollout_id": "r"}


def what_was_done(lines, attempt):
    return [
        (line["effect"], line["arguments"], line["state"]) for line in lines if line["attempt"] == attempt
    ]


def check_rules(source, done):
    """Every state is what the rules make of the one before, from the seed on."""
    rules = SOURCES[source]
    states = [msgspec.convert(state, rules.state_type, strict=False) for _, _, state in done]
    assert done[0][0] == "seed"
    for before, (tool, arguments, _), after in zip(states, done[1:], states[1:], strict=False):
        assert rules.call(before, tool, json.dumps(arguments).encode()).state == after


@pytest.mark.parametrize("turn", range(2, 7))
@pytest.mark.parametrize("source", SOURCES)
async def test_a_session_goes_on_alike_where_it_was_cut_and_on_a_fresh_server(source, turn, tmp_path):
    row, path = a_row(source), "/ng-rollout/r/v1/responses"
    async with crew(tmp_path) as old, trio.open_nursery() as nursery:
        stop, rollout = old.deployment.stop("policy_model", path), Rollout(old, row)
        nursery.start_soon(rollout.fly)
        for _ in range(turn - 1):
            await stop.reached.wait()
            go, stop = stop.go, old.deployment.stop("policy_model", path)
            go.set()
        await stop.reached.wait()
        await old.prepare()
        committed = await old.commit(EpisodeId("r"))
        stop.go.set()
        await wait_all_tasks_blocked()
        at_the_cut = len(effects(tmp_path, source))
        await old.resume()
        await rollout.done.wait()
        stayed = rollout.reply.json()
    async with crew(tmp_path, epoch=2) as fresh:
        await fresh.restore(committed, r=3)
        moved = (await Rollout(fresh, row, 3, **{"x-continued": "1"}).landed()).json()
        assert set(fresh.kept().values()) == {0}
    lines = effects(tmp_path, source)
    whole, went_on = what_was_done(lines, 0), what_was_done(lines, 3)
    assert went_on == whole[at_the_cut:]
    check_rules(source, whole)
    for field in {"reward", "effects", "outcomes", "draws", "same_content", "expected_value"} & stayed.keys():
        assert moved[field] == stayed[field]
    assert moved["effects"] == len(whole) - 1
