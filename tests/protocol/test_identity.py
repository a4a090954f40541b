"""Whose work a request is."""

import pytest

from triocollect.protocol.identity import episode_in, identity_headers, model_path, sender_in
from triocollect.protocol.ids import EpisodeId


@pytest.mark.parametrize("episode", [EpisodeId("0-0"), EpisodeId("a.b_c", 12)])
def test_an_episode_is_the_same_on_both_ends(episode):
    assert episode_in(identity_headers(episode)) == episode


def test_without_a_rollout_id_it_is_nobodys():
    assert episode_in({"x-rollout-attempt": "3"}) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"x-rollout-id": ""},
        {"x-rollout-id": "a/b"},
        {"x-rollout-id": "r-a1"},
        {"x-rollout-id": "r", "x-rollout-attempt": "-1"},
        {"x-rollout-id": "r", "x-rollout-attempt": "٣"},
        {"x-rollout-id": "r", "x-rollout-attempt": ""},
        {"x-rollout-id": "r", "x-rollout-attempt": "1000000000"},
        {"x-rollout-id": "r", "x-rollout-attempt": "9" * 5000},
    ],
)
def test_what_no_episode_can_be_called_is_refused(headers):
    with pytest.raises(ValueError, match=r"x-rollout.*(0 to 999999999|rollout id)"):
        episode_in(headers)


@pytest.mark.parametrize("epoch", ["-1", "x", str(1 << 53), "9" * 5000])
def test_an_epoch_that_is_none_is_refused_in_words(epoch):
    with pytest.raises(ValueError, match=rf"x-collector-epoch: '{epoch[:40]}' is not a whole number"):
        sender_in({"x-collector-run": "r", "x-collector-epoch": epoch})


def test_the_model_hears_the_capture_key():
    assert model_path(EpisodeId("r", 2)) == "/ng-rollout/r-a2/v1/responses"
