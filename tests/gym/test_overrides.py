"""Gym's raw overrides on a command line."""

import pytest

from triocollect.gym.overrides import parse_override


@pytest.mark.parametrize(
    ("token", "override"),
    [
        ("limit=5", ("limit", "limit", 5)),
        ("+limit=5", ("+limit", "limit", 5)),
        ("++head_server.port=11100", ("++head_server.port", "head_server.port", 11100)),
        ("+agent_map={a: b}", ("+agent_map", "agent_map", {"a": "b"})),
        ("+fan_out={k: [x, y]}", ("+fan_out", "fan_out", {"k": ["x", "y"]})),
        ("+agent_name=", ("+agent_name", "agent_name", "")),
        ("+limit=null", ("+limit", "limit", None)),
        ("+x=a=b", ("+x", "x", "a=b")),
    ],
)
def test_an_override_is_its_key_and_its_value(token, override):
    assert parse_override(token) == override


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("rows.jsonl", "neither a flag nor an override"),
        ("~limit", "deleting a key"),
        ("+++limit=1", "is not a key"),
        ("=1", "is not a key"),
        ("a b=1", "is not a key"),
        ("+x=${oc.env:HOME}", "not resolved"),
        ("+x=[1", r"\+x \(command line\): a bracket is never closed"),
    ],
)
def test_what_is_no_override_is_refused_in_words(token, words):
    with pytest.raises(ValueError, match=words):
        parse_override(token)
