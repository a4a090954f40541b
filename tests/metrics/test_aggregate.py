"""The reply to `/aggregate_metrics`, against replies that Gym 0.7.0's own code gave to the same records."""

import json
import random
from pathlib import Path

import pytest

from triocollect.metrics import aggregate

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def golden(case: str) -> tuple[list[dict[str, object]], dict[str, object]]:
    content = json.loads((GOLDEN / f"{case}.json").read_bytes())
    return content["records"], content["reply"]


def same(ours: object, theirs: object, at: str = "reply") -> None:
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), at
        assert set(ours) == set(theirs), at
        for name, value in theirs.items():
            same(ours[name], value, f"{at}.{name}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list), at
        assert len(ours) == len(theirs), at
        for i, value in enumerate(theirs):
            same(ours[i], value, f"{at}[{i}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-8), at
    else:
        assert ours == theirs, at


@pytest.mark.parametrize("case", CASES)
def test_the_reply_is_gym_s(case: str) -> None:
    records, reply = golden(case)
    same(aggregate(records), reply)


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_records_changes_nothing(case: str) -> None:
    records, reply = golden(case)
    random.Random(1).shuffle(records)
    same(aggregate(records), reply)


@pytest.mark.parametrize("case", CASES)
def test_keys_come_in_gym_s_order(case: str) -> None:
    records, reply = golden(case)
    ours = aggregate(records)
    assert list(ours["agent_metrics"]) == list(reply["agent_metrics"])
    assert [list(group) for group in ours["group_level_metrics"]] == [
        list(group) for group in reply["group_level_metrics"]
    ]


def test_a_number_too_large_for_any_float_is_left_out_and_the_rest_counts() -> None:
    reply = aggregate([{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "huge": 10**400}])
    assert reply["agent_metrics"]["mean/reward"] == 1.0
    assert "mean/huge" not in reply["agent_metrics"]


@pytest.mark.parametrize("rewards", [[1e200, 0.0], [1e308] * 3, [1.7e308, -1.7e308], [10**400, 1.0]])
def test_numbers_of_any_size_get_statistics_that_json_can_hold(rewards: list[float]) -> None:
    records = [
        {"_ng_task_index": i, "_ng_rollout_index": i % 2, "reward": reward}
        for i, reward in enumerate(rewards * 2)
    ]
    reply = aggregate(records)
    json.dumps(reply, allow_nan=False)
    assert reply["agent_metrics"]["max/reward"] == max(reward for reward in rewards if reward < 10**309)


def test_an_index_beyond_64_bits_is_none() -> None:
    reply = aggregate([{"_ng_task_index": 10**30, "_ng_rollout_index": -(10**30), "reward": 1.0}])
    assert reply["group_level_metrics"][0]["_ng_task_index"] == 0
