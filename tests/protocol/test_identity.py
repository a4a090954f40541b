"""Whose work a request is."""

import pytest

from triocollect.protocol.identity import episode_in, identity_headers, model_path
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
    ],
)
def test_what_no_episode_can_be_called_is_refused(headers):
    with pytest.raises(ValueError, match="x-rollout"):
        episode_in(headers)


def test_the_model_hears_the_capture_key():
    assert model_path(EpisodeId("r", 2)) == "/ng-rollout/r-a2/v1/responses"
