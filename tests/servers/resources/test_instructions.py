"""Which texts keep to which instructions."""

import time

import msgspec
import pytest
from msgspec import Raw

from triocollect.servers.resources.constraints import KINDS
from triocollect.servers.resources.instructions import Expected, verify

KEPT_AND_NOT = {  # instruction: its arguments, a text that keeps to it, and one that does not
    "length_constraints:number_words": ({"num_words": 3}, "one two three", "one two-and-a-half"),
    "length_constraints:number_sentences": (
        {"num_sentences": 3, "relation": "less than"},
        "One. Two!",
        "One. Two! Three?",
    ),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, "One.\n\nTwo.", "One.\nTwo."),
    "keywords:existence": ({"keywords": ["amber", "C++"]}, "Amber in C++", "amber in C"),
    "keywords:frequency": ({"keyword": "tide", "frequency": 2}, "tide and Tide", "tide"),
    "keywords:forbidden_words": ({"forbidden_words": ["pin"]}, "spinning", "A pin!"),
    "keywords:letter_frequency": (
        {"letter": "q", "let_frequency": 2, "let_relation": "less than"},
        "Quay",
        "quite Quiet",
    ),
    "change_case:capital_word_frequency": ({"capital_frequency": 2}, "THIS is LOUD", "This is LOUD"),
    "change_case:english_capital": ({}, "ALL LOUD, 24 HOURS", "ALL LOUd"),
    "change_case:english_lowercase": ({}, "all quiet, 24 hours", "all Quiet"),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, "So:\n* one\n- two", "* one\n** two"),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, "*a* and *b c*", "*a* and **"),
    "detectable_format:title": ({}, "<<On tides>>\nThey turn.", "<On tides>"),
    "detectable_format:json_format": ({}, '```json\n{"a": 1}\n```', '{"a": 1'),
    "detectable_content:number_placeholders": ({"num_placeholders": 1}, "Dear [name]", "Dear []"),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, "Hi.\np.s. Bye.", "Hi. P.S. Bye."),
    "startend:start_checker": ({"start_phrase": "Once upon"}, "once upon a time", "Well, once upon"),
    "startend:end_checker": ({"end_phrase": "The end."}, 'It was so. The end."', "The end. Really."),
    "startend:quotation": ({}, '"So it is."', '"So" it is.'),
    "punctuation:no_comma": ({}, "One and two.", "One, two."),
}


def judged(answer: str, *asked: tuple[str, dict | None], mode: str = "binary"):
    names = tuple(name for name, _ in asked)
    return verify(answer, Expected(names, tuple(Raw(msgspec.json.encode(given)) for _, given in asked), mode))


@pytest.mark.parametrize("name", KINDS)
def test_an_instruction_is_kept_by_one_text_and_not_by_another(name: str) -> None:
    given, kept, broken = KEPT_AND_NOT[name]
    assert judged(kept, (name, given)).reward == 1.0
    assert judged(broken, (name, given)).reward == 0.0
    assert judged("", (name, given)).reward == 0.0


def test_one_broken_instruction_takes_all_of_the_reward_or_its_share_as_the_row_says() -> None:
    asked = [
        ("punctuation:no_comma", {}),
        ("startend:quotation", None),
        ("keywords:existence", {"keywords": ["a"]}),
    ]
    binary, fraction = judged("a, b", *asked), judged("a, b", *asked, mode="fraction")
    assert (binary.reward, fraction.reward) == (0.0, pytest.approx(1 / 3))
    assert binary.details == {
        "follow_all_instructions": False,
        "follow_instruction_list": [False, False, True],
    }


def test_arguments_of_other_instructions_are_passed_over_as_shared_data_sets_have_them() -> None:
    given = {"keywords": None, "num_words": 1, "relation": "at least", "num_bullets": None}
    assert judged("word", ("length_constraints:number_words", given)).reward == 1.0


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ([("keywords:exist", {})], "no 'keywords:exist' is known; known: length_constraints:number_words"),
        ([("keywords:existence", {})], "`kwargs` of 'keywords:existence': .*`keywords`"),
        ([("length_constraints:number_words", {"num_words": 1, "relation": "about"})], "'about'"),
        ([], "0 entries for the 0"),
    ],
)
def test_instructions_that_are_none_are_refused_by_name(asked: list, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        judged("text", *asked)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("piece", ["*", "[", "<<", "- ", "a-", " \n", "(a+)+", '"'])
def test_no_text_makes_an_instruction_long_to_judge(name: str, piece: str) -> None:
    began = time.thread_time()
    judged(piece * 20_000, (name, KEPT_AND_NOT[name][0]))
    assert time.thread_time() - began < 20
