"""Verifier: the rollout's last words are exactly what the row expects. Stateless, pure."""

import msgspec

from triocollect.servers.resources.source import Verdict


class Expected(msgspec.Struct, frozen=True):
    """Fields of the row. `strip` ignores white space around both texts, `casefold` upper and lower case."""

    expected_answer: str
    strip: bool = True
    casefold: bool = False


def verify(answer: str, expected: Expected) -> Verdict:
    """Reward 1.0 for the same text under the row's options, else 0.0."""
    same = _plain(answer, expected) == _plain(expected.expected_answer, expected)
    return Verdict(float(same), {"given_answer": answer})


def _plain(text: str, expected: Expected) -> str:
    if expected.strip:
        text = text.strip()
    return text.casefold() if expected.casefold else text
