"""Names of rollouts and episodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.protocol.ids import MOST_ATTEMPTS, EpisodeId, RowKey, rollout_id_fault

rollout_ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True).filter(
    lambda name: rollout_id_fault(name) is None
)


@given(rollout_ids, st.integers(0, MOST_ATTEMPTS - 1))
def test_a_capture_key_says_which_episode_it_is(rollout_id, attempt):
    episode = EpisodeId(rollout_id, attempt)
    assert EpisodeId.parse(episode.capture_key) == episode


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a1",
        "x-a0",
        "x-a01",
        "x-a1-a2",
        "x-a1000000000",
        "x-a" + "9" * 5000,
        "../x",
        "x y",
        "é",
        ".x",
        "x\n",
    ],
)
def test_what_no_episode_can_be_called_is_refused(key):
    with pytest.raises(ValueError, match=r"capture key|rollout id"):
        EpisodeId.parse(key)


def test_a_row_is_called_by_its_indices():
    assert str(RowKey(12, 3)) == "12-3"
    assert rollout_id_fault("12-3") is None


@pytest.mark.parametrize("name", ["x-a3", "0-0-a12"])
def test_a_rollout_id_that_reads_like_an_attempt_is_refused(name):
    assert "marks an attempt" in rollout_id_fault(name)
