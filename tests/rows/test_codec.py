"""A row's bytes are orjson's, and a row that cannot be read is refused for the true reason."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.errors import UsageError
from triocollect.rows.codec import MAX_DEPTH, decode_object, encode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def rewritten(text: bytes) -> bytes:
    return encode(decode_object(text))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON), st.booleans())
def test_every_row_is_written_as_orjson_writes_it(row: dict, escaped: bool) -> None:  # noqa: FBT001
    text = json.dumps(row, ensure_ascii=escaped).encode()
    assert rewritten(text) == orjson.dumps(orjson.loads(text))


@pytest.mark.parametrize(
    "number",
    ["1e16", "1E22", "-1e16", "9999999999999998.0", "1.7976931348623157e308", "1e-7", "-0.0", "-0", "1e3"],
)
def test_floats_are_spelled_as_orjson_spells_them(number: str) -> None:
    text = f'{{"f":{number}}}'.encode()
    assert rewritten(text) == orjson.dumps(orjson.loads(text))


@pytest.mark.parametrize("digits", ["18446744073709551616", "-9223372036854775809", "1" * 4300])
def test_integers_over_64_bits_keep_their_digits(digits: str) -> None:
    text = f'{{"i":{digits}}}'.encode()
    assert rewritten(text) == text


def test_of_a_repeated_key_the_last_one_counts() -> None:
    assert rewritten(b'{"a":1,"b":2,"a":3}') == b'{"a":3,"b":2}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[]", "this is a list"),
        (b"42", "this is a number"),
        (b"null", "this is null"),
        (b'"x"', "this is a string"),
        (b"true", "this is a boolean"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e999}', "1e999 is too large"),
        (b'{"a":' + b"1" * 4301 + b"}", "more than 4300 digits"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a":"\\ud800 more"}', "surrogate"),
        (b'{"a":"\\udc00"}', "surrogate"),
        (b'{"\\udfff":1}', "surrogate"),
        (b'{"a":"\xff"}', "not valid UTF-8 at byte 6"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        (b'{"a":1,}', "malformed JSON at character 8"),
        (b'{"a":1} {"b":2}', "malformed JSON at character 9"),
        (b'{"a":1', "malformed JSON at character 7"),
        (b"\0\0\0", "malformed JSON at character 1"),
        (b'{"a":"\t"}', "malformed JSON at character 7"),
    ],
)
def test_what_cannot_be_read_is_refused_for_its_true_reason(text: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        decode_object(text)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 990, 5000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_refused_whatever_the_stack_would_take(
    levels: int, opening: bytes, closing: bytes
) -> None:
    inner = levels - 1  # the row itself is one level
    with pytest.raises(UsageError, match="nested too deep"):
        decode_object(b'{"a":' + opening * inner + b"1" + closing * inner + b"}")


def test_nesting_up_to_the_limit_is_kept() -> None:
    inner = MAX_DEPTH - 1
    text = b'{"a":' + b"[" * inner + b"]" * inner + b"}"
    assert rewritten(text) == text


def test_many_brackets_side_by_side_are_not_deep() -> None:
    text = b'{"a":[' + b",".join([b"[{}]"] * 2000) + b"]}"
    assert rewritten(text) == text
