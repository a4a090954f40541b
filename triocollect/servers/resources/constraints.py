"""Constraints that an answer can be held to by looking at it, by the names and arguments of IFEval. Pure.

(J. Zhou and others, "Instruction-Following Evaluation for Large Language Models", 2023.) Where IFEval reads a
keyword as a regular expression it is taken as it stands here, so that no row can make a search endless, and
no answer depends on a language model of sentences: one ends with `.`, `!` or `?`.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

Relation: TypeAlias = Literal["at least", "less than"]

_SENTENCE: Final = re.compile(r"[^.!?\s][^.!?]*")
_PARAGRAPH: Final = re.compile(r"\n[ \t]*\n")
_BULLET: Final = re.compile(r"^[ \t]*[*-][ \t]+\S", re.MULTILINE)
_HIGHLIGHT: Final = re.compile(r"\*[^*\n]+\*")
_PLACEHOLDER: Final = re.compile(r"\[[^\[\]]+\]")
_TITLE: Final = re.compile(r"<<[^<>\n]+>>")
_WORD: Final = re.compile(r"\w+(?:['-]\w+)*")


class Constraint(msgspec.Struct, frozen=True):
    """One constraint; its fields are the arguments that the row gives it, others are passed over."""

    def holds(self, answer: str) -> bool:
        """Whether the answer keeps to it."""
        raise NotImplementedError


class NumberWords(Constraint, frozen=True):
    num_words: int
    relation: Relation = "at least"

    def holds(self, answer: str) -> bool:
        return _counts(len(_WORD.findall(answer)), self.relation, self.num_words)


class NumberSentences(Constraint, frozen=True):
    num_sentences: int
    relation: Relation = "at least"

    def holds(self, answer: str) -> bool:
        return _counts(len(_SENTENCE.findall(answer)), self.relation, self.num_sentences)


class NumberParagraphs(Constraint, frozen=True):
    """Paragraphs stand between empty lines, or between lines of `***` as IFEval has it."""

    num_paragraphs: int

    def holds(self, answer: str) -> bool:
        pieces = answer.split("***") if "***" in answer else _PARAGRAPH.split(answer)
        return sum(1 for piece in pieces if piece.strip()) == self.num_paragraphs


class Keywords(Constraint, frozen=True):
    keywords: tuple[str, ...]

    def holds(self, answer: str) -> bool:
        return all(word.casefold() in answer.casefold() for word in self.keywords)


class KeywordFrequency(Constraint, frozen=True):
    keyword: str
    frequency: int
    relation: Relation = "at least"

    def holds(self, answer: str) -> bool:
        return _counts(answer.casefold().count(self.keyword.casefold()), self.relation, self.frequency)


class ForbiddenWords(Constraint, frozen=True):
    """Whole words only: "pin" does not forbid "spinning"."""

    forbidden_words: tuple[str, ...]

    def holds(self, answer: str) -> bool:
        return not any(
            re.search(rf"(?<!\w){re.escape(word)}(?!\w)", answer, re.IGNORECASE)
            for word in self.forbidden_words
        )


class LetterFrequency(Constraint, frozen=True):
    letter: str
    let_frequency: int
    let_relation: Relation = "at least"

    def holds(self, answer: str) -> bool:
        return _counts(answer.casefold().count(self.letter.casefold()), self.let_relation, self.let_frequency)


class CapitalWords(Constraint, frozen=True):
    capital_frequency: int
    capital_relation: Relation = "at least"

    def holds(self, answer: str) -> bool:
        capitals = sum(1 for word in _WORD.findall(answer) if word.isupper())
        return _counts(capitals, self.capital_relation, self.capital_frequency)


class Bullets(Constraint, frozen=True):
    num_bullets: int

    def holds(self, answer: str) -> bool:
        return len(_BULLET.findall(answer)) == self.num_bullets


class Highlights(Constraint, frozen=True):
    num_highlights: int

    def holds(self, answer: str) -> bool:
        return len(_HIGHLIGHT.findall(answer)) >= self.num_highlights


class Placeholders(Constraint, frozen=True):
    num_placeholders: int

    def holds(self, answer: str) -> bool:
        return len(_PLACEHOLDER.findall(answer)) >= self.num_placeholders


class Postscript(Constraint, frozen=True):
    postscript_marker: str

    def holds(self, answer: str) -> bool:
        marker = self.postscript_marker.casefold()
        return any(line.lstrip().startswith(marker) for line in answer.casefold().splitlines())


class StartsWith(Constraint, frozen=True):
    start_phrase: str

    def holds(self, answer: str) -> bool:
        return answer.lstrip().casefold().startswith(self.start_phrase.strip().casefold())


class EndsWith(Constraint, frozen=True):
    end_phrase: str

    def holds(self, answer: str) -> bool:
        return answer.strip(' \t\r\n"').casefold().endswith(self.end_phrase.strip().casefold())


class Quoted(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        return len(answer.strip()) > 1 and answer.strip().startswith('"') and answer.strip().endswith('"')


class Title(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        return any(title.strip("<> ") for title in _TITLE.findall(answer))


class JsonOnly(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        inside = answer.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        try:
            msgspec.json.decode(inside)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return False
        return True


class Capitals(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        return answer.isupper()


class Lowercase(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        return answer.islower()


class NoComma(Constraint, frozen=True):
    def holds(self, answer: str) -> bool:
        return "," not in answer


KINDS: Final[Mapping[str, type[Constraint]]] = {
    "length_constraints:number_words": NumberWords,
    "length_constraints:number_sentences": NumberSentences,
    "length_constraints:number_paragraphs": NumberParagraphs,
    "keywords:existence": Keywords,
    "keywords:frequency": KeywordFrequency,
    "keywords:forbidden_words": ForbiddenWords,
    "keywords:letter_frequency": LetterFrequency,
    "change_case:capital_word_frequency": CapitalWords,
    "change_case:english_capital": Capitals,
    "change_case:english_lowercase": Lowercase,
    "detectable_format:number_bullet_lists": Bullets,
    "detectable_format:number_highlighted_sections": Highlights,
    "detectable_format:title": Title,
    "detectable_format:json_format": JsonOnly,
    "detectable_content:number_placeholders": Placeholders,
    "detectable_content:postscript": Postscript,
    "startend:start_checker": StartsWith,
    "startend:end_checker": EndsWith,
    "startend:quotation": Quoted,
    "punctuation:no_comma": NoComma,
}


def _counts(found: int, relation: Relation, wanted: int) -> bool:
    return found >= wanted if relation == "at least" else found < wanted
