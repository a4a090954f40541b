r"""Which letter an answer settles on."""

import time

import msgspec
import pytest

from triocollect.servers.resources.multiple_choice import Expected, choice, verify

OPTIONS = {"A": "18", "B": "19", "C": "a wolf", "D": "27"}
ROW = Expected(tuple({letter: text} for letter, text in OPTIONS.items()), "B")


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        (r"So it is \boxed{B}.", "B"),
        (r"\boxed{ (b) }", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{B: 19}", "B"),
        (r"\boxed{a wolf}", "C"),
        (r"\boxed{A}, no: \boxed{B}", "B"),
        (r"Answer: A, boxed \boxed{42}", None),
        ("Answer: B", "B"),
        ("answer is B, because it is.", "B"),
        ("The correct answer is **(B)**.", "B"),
        ("Answer: $B$", "B"),
        ("Of these the correct option is B, as option A is wrong.", "B"),
        ("**Answer:** B", "B"),
        ("Answer: A\nWait.\nAnswer: D", "D"),
        ("The answer is a matter of taste", None),
        ("B", "B"),
        ("b.", "B"),
        ("(b)", "B"),
        ("[B]", "B"),
        ("B) 19", "B"),
        ("Well.\nB: 19", "B"),
        ("Neither (A) nor (C) but (B) it must be", "B"),
        ("A wolf it is", None),
        ("Answer: E", None),
        ("I choose B today", None),
        ("", None),
        ("Banana", None),
    ],
)
def test_a_letter_is_found_in_the_ways_that_models_give_it(answer: str, letter: str | None) -> None:
    assert choice(answer, OPTIONS) == letter


def test_only_the_expected_letter_earns_the_reward_and_the_reply_says_which_was_found() -> None:
    assert verify("Answer: B", ROW).reward == 1.0
    other = verify("Answer: C", ROW)
    assert (other.reward, other.details) == (0.0, {"extracted_answer": "C"})
    assert verify("I do not know", ROW).details == {"extracted_answer": None}


def test_a_row_that_expects_no_option_of_its_own_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="'E' is no option; options: A, B"):
        verify("B", Expected(({"A": "1"}, {"B": "2"}), "E"))


@pytest.mark.parametrize("piece", ["answer ", "(", "**", "(A", "\\boxed{", "answer is ((((", "A_", "\n"])
def test_no_text_makes_the_search_for_a_letter_long(piece: str) -> None:
    began = time.thread_time()
    choice(piece * 50_000, OPTIONS)
    assert time.thread_time() - began < 20
