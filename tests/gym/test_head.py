"""Asking the head server."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.gym.stub import body_of
from triocollect.errors import ConfigError, NotSentError, UsageError
from triocollect.gym.head import decode_head_reply, fetch_config, silent
from triocollect.transport import Reply


class Head:
    """A head that answers with one reply, or cannot be reached."""

    def __init__(self, answer: Reply | NotSentError) -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def get(self, url: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply:
        assert not headers
        self.asked.append(url)
        if isinstance(self._answer, NotSentError):
            raise self._answer
        return self._answer


async def test_the_config_is_a_json_string_of_yaml_with_secrets_and_open_interpolations() -> None:
    head = Head(Reply(200, (), body_of("head_config")))
    config = await fetch_config(head, "http://127.0.0.1:11100/", environ={})
    assert head.asked == ["http://127.0.0.1:11100/global_config_dict_yaml"]
    relay = config.servers["example_single_tool_call_environment_server"]
    assert (relay.url, relay.agents) == ("http://127.0.0.1:11103", ("example_single_tool_call_simple_agent",))
    assert config.servers["policy_model"].fields["openai_base_url"] == "${policy_base_url}"
    assert "policy_api_key" in config.settings


async def test_an_injected_config_is_taken_and_no_head_is_asked() -> None:
    head = Head(NotSentError("refused", kind="refused"))
    environ = {"NEMO_GYM_CONFIG_DICT": "a: {responses_api_agents: {x: {host: h, port: 1}}}"}
    config = await fetch_config(head, "http://h:1", environ=environ)
    assert list(config.servers) == ["a"]
    assert head.asked == []


async def test_a_fault_in_an_injected_config_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="the environment variable NEMO_GYM_CONFIG_DICT"):
        await fetch_config(Head(Reply(200, (), b"")), "http://h:1", environ={"NEMO_GYM_CONFIG_DICT": "[1]"})


async def test_a_head_that_cannot_be_reached_is_named() -> None:
    head = Head(NotSentError("connection refused", kind="refused"))
    with pytest.raises(
        UsageError, match=r"cannot reach the head server at http://h:1: connection refused\. Is it"
    ):
        await fetch_config(head, "http://h:1", environ={})


async def test_a_head_that_answers_with_an_error_is_named_with_its_status() -> None:
    with pytest.raises(UsageError, match="the head server at http://h:1 answered 404"):
        await fetch_config(Head(Reply(404, (), b'{"detail":"Not Found"}')), "http://h:1", environ={})


def test_a_head_that_says_nothing_is_named_with_the_wait() -> None:
    assert "http://h:1 did not answer within 10 s" in str(silent("http://h:1"))


@pytest.mark.parametrize("body", [b"", b"a: b", b'{"a": 1}', b'"a: [', b'"\xff"', b"<html>"])
def test_an_answer_that_is_no_json_string_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigError, match="http://h:1/g: not a head server's answer"):
        decode_head_reply(body, origin="http://h:1/g")


def test_an_oversized_answer_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ConfigError, match="bytes of config"):
        decode_head_reply(msgspec.json.encode("x" * (16 << 20)))
