r"""Verifier: the letter that the rollout's last words choose is the expected one. Stateless, pure.

Read in this order: the last `\boxed{...}`, which decides alone where there is one and may also hold an
option's text; the last "answer is B", "Answer: B" or "option is B"; the last line, where it is a letter or
begins with one as options do ("B", "(b)", "B) nineteen"); the last letter in parentheses. Letters that are no
option of the row are passed over.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from triocollect.servers.resources.boxed import boxed
from triocollect.servers.resources.source import Verdict

_LETTER: Final = r"[A-Za-z](?![\w'])"
_MARKS: Final = r"[*_`$(\[{\s]*(?:\\text\{\s*)?"  # what may stand between "Answer:" and its letter
_SAID: Final = r"(?i:\banswer(?:\s+is\b)?|\b(?:option|choice)\s+is\b)"
_CHOSEN: Final = re.compile(rf"{_SAID}\s{{0,9}}[:=]?{_MARKS}([A-Z](?![\w']))")
_ALONE: Final = re.compile(rf"[\W_]*({_LETTER})[\W_]*", re.ASCII)
_HEADING: Final = re.compile(r"[*_\s]*(?:\(([A-Za-z])\)|([A-Za-z])[).:])\s", re.ASCII)
_BRACKETED: Final = re.compile(r"\(([A-Za-z])\)")
_TEXT: Final = re.compile(r"\\(?:text|mathrm|mathbf)\{([^{}]*)\}")


class Expected(msgspec.Struct, frozen=True):
    """Fields of the row, as Gym 0.7.0's `mcqa` has them: `[{"A": "18"}, {"B": "19"}]` and "B"."""

    options: tuple[dict[str, str], ...]
    expected_answer: str


def verify(answer: str, expected: Expected) -> Verdict:
    """Reward 1.0 for the expected letter, else 0.0; no letter earns 0.0.

    Raises msgspec.ValidationError where the row expects a letter that is none of its options.
    """
    options = {letter.strip().upper(): text for option in expected.options for letter, text in option.items()}
    right = expected.expected_answer.strip().upper()
    if right not in options:
        known = ", ".join(options) or "none"
        raise msgspec.ValidationError(f"`expected_answer`: {right!r} is no option; options: {known}")
    chosen = choice(answer, options)
    return Verdict(float(chosen == right), {"extracted_answer": chosen})


def choice(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter, in upper case, that an answer settles on; None where it settles on no option."""
    if (inside := boxed(answer)) is not None:
        return _in_box(inside, options)
    lines = answer.strip().splitlines()
    last = lines[-1] if lines else ""
    return (
        _last(_CHOSEN.findall(answer), options)
        or _last(_whole(last), options)
        or _last(_BRACKETED.findall(answer), options)
    )


def _in_box(inside: str, options: Mapping[str, str]) -> str | None:
    inside = _TEXT.sub(r"\1", inside).strip()
    if (letter := _last(_whole(f"{inside}\n"), options)) is not None:
        return letter
    same = [letter for letter, text in options.items() if text.strip().casefold() == inside.casefold()]
    return same[0] if len(same) == 1 else None


def _whole(line: str) -> list[str]:
    if (alone := _ALONE.fullmatch(line)) is not None:
        return [alone[1]]
    heading = _HEADING.match(line)
    return [] if heading is None else [heading[1] or heading[2]]


def _last(letters: list[str], options: Mapping[str, str]) -> str | None:
    known = [letter.upper() for letter in letters if letter.upper() in options]
    return known[-1] if known else None
