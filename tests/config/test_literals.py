"""Values in the spelling of Hydra's overrides."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.config.literals import parse_literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("1_000", 1000),
        ("007", "007"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("False", False),
        ("null", None),
        ("NULL", None),
        ("yes", "yes"),
        ("", ""),
        ("  padded  ", "padded"),
        ("out/a b.jsonl", "out/a b.jsonl"),
        ("http://host:80/v1", "http://host:80/v1"),
        ("a=b", "a=b"),
        ("'5'", "5"),
        ('"null"', "null"),
        (r"'it\'s'", "it's"),
        (r"'back\\'", "back\\"),
        (r"'C:\dir'", r"C:\dir"),
        (r"a\,b", "a,b"),
        (r"\[x\]", "[x]"),
        ("[]", []),
        ("[x, 2, true, null]", ["x", 2, True, None]),
        ("[a b, 'c, d']", ["a b", "c, d"]),
        ("[[1], {a: 2}]", [[1], {"a": 2}]),
        ("[http://h:1]", ["http://h:1"]),
        ("{}", {}),
        ("{a: b}", {"a": "b"}),
        ("{a:{b:[c]},_default:1}", {"a": {"b": ["c"]}, "_default": 1}),
        ('{"a": "b"}', {"a": "b"}),
        (r"{a\:b: c}", {"a:b": "c"}),
        ("{1: x}", {"1": "x"}),
    ],
)
def test_a_value_reads_as_hydra_reads_it(text, value):
    parsed = parse_literal(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_words_for_what_is_not_finite_become_floats():
    assert parse_literal("inf") == math.inf
    assert parse_literal("-inf") == -math.inf
    assert math.isnan(parse_literal("nan"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a", "never closed"),
        ("{a: b", "never closed"),
        ("'a", "never closed"),
        ("[a] b", "follows the end"),
        ("'a'b", "follows the end"),
        ("[,]", "nothing stands before"),
        ("[a,]", "nothing stands before"),
        ("{a: 1, a: 2}", "twice"),
        ("{a}", "unexpected"),
        ("[" * 500, "deep"),
    ],
)
def test_a_value_that_is_none_is_refused_in_words(text, words):
    with pytest.raises(ValueError, match=words):
        parse_literal(text)


@given(st.text())
def test_any_text_is_a_value_or_a_refusal(text):
    with contextlib.suppress(ValueError):
        parse_literal(text)


@given(st.lists(st.text()))
def test_quoted_text_comes_back_whatever_is_in_it(texts):
    def quote(text):
        slashes = len(text) - len(text.rstrip("\\"))
        body = text[: len(text) - slashes]
        parts = body.split("'")
        doubled = []
        for part in parts[:-1]:
            tail = len(part) - len(part.rstrip("\\"))
            doubled.append(part + "\\" * tail + "\\")
        return "'" + "'".join([*doubled, parts[-1]]) + "\\" * (2 * slashes) + "'"

    assert parse_literal("[" + ", ".join(map(quote, texts)) + "]") == texts
