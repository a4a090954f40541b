"""Asking for metrics and laying out the aggregate file."""

from collections.abc import Sequence

import msgspec
import orjson
import pytest
from msgspec import Raw

from tests.gym.stub import body_of
from triocollect.config.settings import RoutingConfig
from triocollect.errors import ConfigError, ReplyRefusedError
from triocollect.gym.config_tree import parse_config
from triocollect.gym.metrics import (
    entry_of,
    fetch_metrics,
    file_bytes,
    request_body,
    share_out,
    stripped,
)
from triocollect.gym.routing import Router, Scorer, SingleServer, Target
from triocollect.transport import Reply

CONFIG = """
b_env: {environment_servers: {legacy_agent: {agent_server: {name: alpha}, host: h, port: 1}}}
a_env: {environment_servers: {single_agent_turn: {agent_server: {name: beta}, host: h, port: 2}}}
"""


def a_record(task: int, rollout: int, server: str | None, agent: str | None, **fields: object) -> bytes:
    names: dict[str, object] = {"_ng_task_index": task, "_ng_rollout_index": rollout}
    if agent is not None:
        names["agent_ref"] = {"name": agent}
    if server is not None:
        names["_ng_environment_server"] = server
    return msgspec.json.encode(fields | names)


def a_router(config: str = CONFIG) -> Router:
    agents = "".join(
        f"{name}: {{responses_api_agents: {{s: {{host: h, port: {port}}}}}}}\n"
        for name, port in (("alpha", 11), ("beta", 12))
    )
    return Router(parse_config(config + agents), RoutingConfig())


class Servers:
    """Answers every request with the same reply."""

    def __init__(self, *, status: int = 200, body: bytes = body_of("aggregate_metrics")) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self._reply = Reply(status, (), body)

    async def post(self, url: str, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply:
        assert (b"content-type", b"application/json") in headers
        self.asked.append((url, body))
        return self._reply


def test_of_a_record_the_heavy_parts_stay_behind_and_usage_comes_last() -> None:
    record = (
        b'{"responses_create_params":{},"response":{"output":[1],"usage":{"total_tokens":3},"incomplete_details":null},'
        b'"reward":1.0,"ng_trajectory":{},"ng_agent_observations":null,"ng_model_call_capture":{},"ng_perf":{"a":1}}'
    )
    assert stripped(record) == b'{"reward":1.0,"ng_perf":{"a":1},"response":{"usage":{"total_tokens":3}}}'


@pytest.mark.parametrize(
    ("response", "kept"),
    [
        (
            b'{"incomplete_details":{"reason":"r"},"usage":{}}',
            b',"response":{"usage":{},"incomplete_details":{"reason":"r"}}',
        ),
        (b'{"usage":null}', b""),
        (b"null", b""),
        (b'"text"', b""),
        (b"[1]", b""),
    ],
)
def test_of_a_response_usage_and_incompleteness_stay(response: bytes, kept: bytes) -> None:
    assert stripped(b'{"response":%s,"reward":0}' % response) == b'{"reward":0%s}' % kept


def test_records_are_grouped_by_server_in_the_order_of_their_keys() -> None:
    records = [
        a_record(1, 0, "b_env", "alpha"),
        a_record(0, 1, "b_env", "alpha"),
        a_record(0, 0, "a_env", None),
        a_record(0, 0, None, "alpha"),
    ]
    one, two = share_out(records, a_router())
    assert (one.name, one.scorer.agent, [key for key, _ in one.records]) == ("a_env", "beta", [(0, 0)])
    assert (two.name, two.scorer.agent) == ("b_env", "alpha")
    assert request_body(two) == (
        b'{"verify_responses":['
        b'{"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"alpha"}},'
        b'{"_ng_task_index":0,"_ng_rollout_index":1,"agent_ref":{"name":"alpha"},"_ng_environment_server":"b_env"},'
        b'{"_ng_task_index":1,"_ng_rollout_index":0,"agent_ref":{"name":"alpha"},"_ng_environment_server":"b_env"}]}'
    )


def test_the_first_record_in_order_says_whose_metrics_they_are() -> None:
    records = [a_record(1, 0, "b_env", "other"), a_record(0, 0, "b_env", "alpha")]
    (share,) = share_out(records, a_router())
    assert share.scorer.agent == "alpha"


def test_records_of_a_server_that_is_gone_are_refused() -> None:
    with pytest.raises(ConfigError, match="'gone_env', which is not in the running config"):
        share_out([a_record(0, 0, "gone_env", "alpha")], a_router())


async def test_each_server_is_asked_once_and_the_entries_are_sorted_by_label() -> None:
    records = [a_record(0, 0, "a_env", "beta"), a_record(1, 0, "b_env", "alpha")]
    servers = Servers()
    entries = await fetch_metrics(servers, share_out(records, a_router()))
    assert [url for url, _ in servers.asked] == [
        "http://h:2/aggregate_metrics",
        "http://h:1/aggregate_metrics",
    ]
    written = orjson.loads(file_bytes(entries))
    assert [entry["agent_ref"]["name"] for entry in written] == ["alpha", "beta"]


async def test_the_file_is_one_indented_array_as_orjson_writes_it() -> None:
    entries = await fetch_metrics(Servers(), share_out([a_record(0, 0, "b_env", "alpha")], a_router()))
    written = file_bytes(entries)
    decoded = orjson.loads(written)
    assert written == orjson.dumps(decoded, option=orjson.OPT_INDENT_2)
    assert list(decoded[0]) == [
        "agent_ref",
        "_ng_environment_server",
        "agent_metrics",
        "key_metrics",
        "group_level_metrics",
        "repeat_level_metrics",
    ]
    assert decoded[0]["agent_ref"] == {"name": "alpha"}
    assert decoded[0]["_ng_environment_server"] == "b_env"


def test_a_server_of_an_older_gym_has_no_name_and_no_levels_of_repeats() -> None:
    (share,) = share_out([a_record(0, 0, None, "alpha")], a_router(config=""))
    entry = entry_of(share, "alpha", b'{"agent_metrics":{},"key_metrics":{},"group_level_metrics":[]}')
    assert file_bytes([entry]) == (
        b'[\n  {\n    "agent_ref": {\n      "name": "alpha"\n    },\n    "agent_metrics": {},\n'
        b'    "key_metrics": {},\n    "group_level_metrics": []\n  }\n]'
    )


def test_a_server_that_says_little_still_has_every_key() -> None:
    (share,) = share_out([a_record(0, 0, "b_env", "alpha")], a_router())
    entry = entry_of(share, "alpha", b'{"perf_summary":{"mean_turns":2}}')
    assert entry.repeat_level_metrics == Raw(b"[]")
    assert entry.perf_summary == Raw(b'{"mean_turns":2}')
    assert list(msgspec.json.decode(msgspec.json.encode(entry)))[-2:] == [
        "repeat_level_metrics",
        "perf_summary",
    ]


def test_a_single_server_scores_everything() -> None:
    records = [a_record(0, 0, None, "alpha"), a_record(1, 0, None, None)]
    (share,) = share_out(records, SingleServer("http://h:9"))
    assert share.scorer == Scorer(Target("http://h:9"), "alpha")
    assert len(share.records) == 2


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (500, b'"boom"', "answered 500"),
        (200, b"[]", "did not answer"),
        (200, b'{"agent_metrics":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "did not .* nested too deep"),
        (200, b'{"agent_metrics":"\xff"}', "did not answer .* can't decode byte"),
        (200, b'{"agent_metrics":{"x":' + b"9" * 5000 + b"}}", "did not answer .*4300 digits"),
        (200, b'{"agent_metrics":{"x":NaN}}', "did not answer"),
    ],
)
async def test_a_server_without_metrics_is_named(status: int, body: bytes, says: str) -> None:
    shares = share_out([a_record(0, 0, "b_env", "alpha")], a_router())
    with pytest.raises(ReplyRefusedError, match=f"http://h:1/aggregate_metrics {says}"):
        await fetch_metrics(Servers(status=status, body=body), shares)
