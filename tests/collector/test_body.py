"""What of a reply's body is taken, and in which words the rest is refused."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from triocollect.collector.body import MAX_DEPTH, MOST_DIGITS, BadBodyError, depth, fields_of
from triocollect.records.fate import number_of

json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)


def nesting(value):
    match value:
        case dict():
            return 1 + max(map(nesting, value.values()), default=0)
        case list():
            return 1 + max(map(nesting, value), default=0)
        case _:
            return 0


@given(json_texts)
def test_the_depth_of_a_text_is_that_of_its_value(value):
    import json  # noqa: PLC0415

    assert depth(json.dumps(value).encode()) == nesting(value)
    assert depth(json.dumps(value, ensure_ascii=False).encode()) == nesting(value)


def nested(levels, fill=b""):
    return b'{"t":' + b"[" * (levels - 1) + fill + b"]" * (levels - 1) + b"}"


def test_the_deepest_that_is_taken_and_the_first_that_is_not():
    assert list(fields_of(nested(MAX_DEPTH))) == ["t"]
    with pytest.raises(BadBodyError, match="nested too deep"):
        fields_of(nested(MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep():
    assert list(fields_of(b'{"t":[' + b",".join([b'{"a":[1]}'] * 5000) + b"]}")) == ["t"]


def test_brackets_inside_a_text_are_not_deep():
    assert list(fields_of(b'{"t":"' + b'[\\"' * 5000 + b'"}')) == ["t"]


def test_a_long_text_beside_many_brackets_costs_no_memory_of_its_own():
    body = b'{"t":[' + b",".join([b"[]"] * 600) + b'],"s":"' + b"x" * (4 << 20) + b'"}'
    tracemalloc.start()
    try:
        fields_of(body)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"[]", "a list"),
        (b'"x"', "a string"),
        (b"17", "a number"),
        (b"null", "null"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":"NaN","b":-Infinity}', "-Infinity"),
        (b'{"a":"NaN","b":1', "damaged JSON"),
        (b'{"a":1} x', "damaged JSON"),
        (b'{"a":"\xff"}', "not UTF-8 at byte 6"),
        (b"<html>", "damaged JSON"),
        (b"\x1f\x8b\x08", "not UTF-8"),
    ],
)
def test_anything_else_is_refused_in_words(body, said):
    with pytest.raises(BadBodyError, match=said):
        fields_of(body)


def test_the_last_of_equal_keys_counts():
    assert bytes(fields_of(b'{"a":1,"b":2,"a":3}')["a"]) == b"3"


@pytest.mark.parametrize(
    ("field", "number"),
    [(b"1", 1.0), (b"-2.5e1", -25.0), (b"true", 1.0), (b"false", 0.0), (b"null", None), (b'"1"', None)],
)
def test_a_reward_is_a_number_or_nothing(field, number):
    assert number_of(Raw(field)) == number


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"' + b'[{\\"role\\":\\"tool\\"},' * 200_000,
        b'{"x":' + b"[" * 2_000_000,
        b'{"x":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
        b'{"x":"' + b"\\" * 1_000_001,
    ],
    ids=["a string that does not end", "brackets that do not close", "brackets that do", "a last backslash"],
)
def test_no_body_however_damaged_holds_the_run_up(body):
    # Anything but one pass over it would take hours, and faulthandler would end the test.
    with pytest.raises(BadBodyError):
        fields_of(body)


def test_a_number_that_python_could_not_read_back_is_refused():
    assert list(fields_of(b'{"a":' + b"9" * MOST_DIGITS + b"}")) == ["a"]
    assert list(fields_of(b'{"a":"' + b"9" * 9000 + b'"}')) == ["a"]
    with pytest.raises(BadBodyError, match="4300 digits"):
        fields_of(b'{"a":' + b"9" * (MOST_DIGITS + 1) + b"}")
