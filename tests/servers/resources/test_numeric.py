r"""Which number a text ends on, and how near it must be."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.servers.resources.numeric import Expected, last_number, verify

WORDS = st.text(st.characters(exclude_categories=["N"], exclude_characters=r".,\{}"), max_size=20)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", "42"),
        ("First 7, then 8", "8"),
        ("It costs $1,234,567.50 today", "1234567.50"),
        ("-3", "-3"),
        ("x = \N{MINUS SIGN}3", "-3"),
        ("10-3", "3"),
        ("(5)-3", "3"),
        ("about .5", "0.5"),
        ("6.02e23", "6.02e23"),
        ("1e-3 and no more", "0.001"),
        ("3e4000", "4000"),
        ("1,2345", "2345"),
        (r"so \boxed{12} of 30", "12"),
        (r"\boxed{1} no, \boxed{x_{1} = 2} of 30", "2"),
        (r"\boxed{-7", "-7"),
    ],
)
def test_a_text_ends_on_the_number_a_reader_would_take(text: str, number: str) -> None:
    assert last_number(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "none at all", r"12 is \boxed{unknown}", "٣"])
def test_a_text_without_a_number_ends_on_none(text: str) -> None:
    assert last_number(text) is None


@given(before=WORDS, number=st.decimals(allow_nan=False, allow_infinity=False, places=3), after=WORDS)
def test_a_number_is_read_exactly_whatever_words_stand_around_it(
    before: str, number: Decimal, after: str
) -> None:
    assert last_number(f"{before} {number:f} {after}") == number


@given(st.integers(), st.integers(min_value=1))
def test_two_whole_numbers_of_any_length_are_never_taken_for_each_other(number: int, off: int) -> None:
    assert verify(f"{number}", Expected(str(number))).reward == 1.0
    assert verify(f"{number + off}", Expected(str(number))).reward == 0.0


@given(st.text())
def test_no_text_breaks_the_verifier(text: str) -> None:
    assert verify(text, Expected(1e300)).reward in (0.0, 1.0)


def test_an_answer_may_be_off_by_the_tolerance_and_no_more() -> None:
    assert verify("2.5", Expected(2, tolerance=0.5)).reward == 1.0
    assert verify("2.51", Expected(2, tolerance=0.5)).reward == 0.0
    assert verify("no idea", Expected(2, tolerance=0.5)).details == {"extracted_answer": None}


def test_a_row_that_expects_no_number_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"`expected_answer`: 'blue' holds no number"):
        verify("1", Expected("blue"))
