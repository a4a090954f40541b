"""What a server puts into a record comes back exactly, and is on one line."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from triocollect.errors import StateError
from triocollect.participant import decode_state
from triocollect.servers.states import digest_of, give_back, keep

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["$float", "$dict", "$ref"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


class Kept(msgspec.Struct, frozen=True):
    foreign: dict[str, Raw]
    steps: int = 0


@given(st.dictionaries(st.text(), JSON), st.sampled_from([None, 2]), st.booleans())
def test_foreign_json_comes_back_as_it_was_however_it_was_written(foreign, indent, ascii_only):
    written = {
        name: Raw(json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode())
        for name, value in foreign.items()
    }
    state = keep(Kept(written, 3))
    assert b"\n" not in bytes(state)
    again = give_back(state, Kept)
    assert again.steps == 3
    assert {name: json.loads(bytes(value)) for name, value in again.foreign.items()} == foreign


@pytest.mark.parametrize("number", ["1e400", "1.10", "1208925819614629174706176", "-0.0"])
def test_a_number_keeps_its_digits(number):
    assert bytes(give_back(keep(Kept({"n": Raw(number.encode())})), Kept).foreign["n"]) == number.encode()


@pytest.mark.parametrize("foreign", [b'{"$float":"nan"}', b'{"\\u0024float":"nan"}', b'{"$ref":"#/x"}'])
def test_what_looks_like_an_escape_is_no_escape_to_readers_of_states(foreign):
    state = keep(Kept({"schema": Raw(foreign)}))
    text = decode_state(state)
    assert isinstance(text, str)
    assert json.loads(text)["foreign"]["schema"] == json.loads(foreign)
    assert give_back(state, Kept).foreign["schema"] == Raw(foreign)


def test_a_record_of_something_else_is_refused():
    with pytest.raises(StateError, match="no Kept is in this record"):
        give_back(Raw(b'{"steps":"three"}'), Kept)
    with pytest.raises(StateError):
        give_back(Raw(b'"{"'), Kept)


def test_nothing_is_a_state_too():
    assert give_back(keep(None), type(None)) is None


def test_a_digest_is_of_the_fields_and_not_of_how_they_are_set():
    one = digest_of({"a": Raw(b'{"x": [1, 2]}'), "b": Raw(b"null")})
    assert one == digest_of({"b": Raw(b" null "), "a": Raw(b'{"x":[1,2]}')})
    assert one != digest_of({"a": Raw(b'{"x":[1,3]}'), "b": Raw(b"null")})
    assert one != digest_of({"a": Raw(b'{"x":[1,2]}'), "c": Raw(b"null")})
