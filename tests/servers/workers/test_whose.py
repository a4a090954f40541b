"""Whose work a request is, for each kind of server."""

import msgspec
import pytest

from triocollect.protocol.identity import identity_headers
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.workers.whose import whose

NAMED = EpisodeId("7-1", 2)
HEADERS = identity_headers(NAMED)
ROW = {"_ng_task_index": 7, "_ng_rollout_index": 1, "_ng_attempt_index": 2}


@pytest.mark.parametrize(
    ("kind", "path", "headers", "body", "episode"),
    [
        ("environment", "/run", {}, ROW, NAMED),
        ("environment", "/run", {}, {"_ng_rollout_id": "mine", "x": 1}, EpisodeId("mine")),
        ("environment", "/run", {}, {"episode_id": {"rollout_id": "7-1", "attempt": 2}, "task": {}}, NAMED),
        ("environment", "/run", {}, {"x": 1}, None),
        ("environment", "/aggregate_metrics", {}, ROW, None),
        ("agent", "/v1/agent_sessions", HEADERS, {}, NAMED),
        ("agent", "/ng-rollout/7-1-a2/v1/responses", {}, {}, NAMED),
        ("agent", "/livez", {}, {}, None),
        ("model", "/ng-rollout/7-1-a2/v1/responses", {}, {}, NAMED),
        ("model", "/ng-rollout/7-1-a2/close", {}, {}, NAMED),
        ("model", "/v1/responses", {}, {}, None),
        ("resources", "/seed_session", HEADERS, {}, NAMED),
        ("resources", "/seed_session", {}, ROW, NAMED),
        ("resources", "/increment", {"cookie": "a=b; Resources___counter=7-1.xyz"}, {}, EpisodeId("7-1")),
        ("resources", "/increment", {"cookie": "other=thing"}, {}, None),
        ("resources", "/increment", HEADERS | {"cookie": "Resources___counter=other.xyz"}, {}, NAMED),
    ],
)
def test_a_request_is_read_as_its_server_reads_it(kind, path, headers, body, episode):
    assert whose(kind)(path, headers, msgspec.json.encode(body)) == episode


@pytest.mark.parametrize(
    ("kind", "path", "headers", "body"),
    [
        ("environment", "/run", {}, b"no JSON"),
        ("environment", "/run", {}, b'{"_ng_rollout_id": "../.."}'),
        ("environment", "/run", {}, b"[" * 100_000),
        ("agent", "/ng-rollout/7-1-a0/v1/responses", {}, b""),
        ("agent", "/ng-rollout/", {}, b""),
        ("model", "/x", {"x-rollout-id": "-"}, b""),
        ("resources", "/seed_session", {}, b'{"_ng_rollout_id": 5}'),
        ("resources", "/increment", {"cookie": "\x00=;;=.;"}, b""),
    ],
)
def test_what_cannot_be_read_is_nobodys_and_the_server_says_what_is_wrong(kind, path, headers, body):
    assert whose(kind)(path, headers, body) is None
