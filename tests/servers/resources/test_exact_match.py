"""When two texts are the same."""

import pytest

from triocollect.servers.resources.exact_match import Expected, verify


@pytest.mark.parametrize(
    ("answer", "expected", "reward"),
    [
        ("blue", Expected("blue"), 1.0),
        (" blue\n", Expected("blue"), 1.0),
        (" blue\n", Expected("blue", strip=False), 0.0),
        ("Blue", Expected("blue"), 0.0),
        ("STRASSE", Expected("Straße", casefold=True), 1.0),
        ("blue whale", Expected("blue"), 0.0),
        ("", Expected("blue"), 0.0),
    ],
)
def test_an_answer_earns_its_reward_under_the_rows_options(
    answer: str, expected: Expected, reward: float
) -> None:
    verdict = verify(answer, expected)
    assert verdict.reward == reward
    assert verdict.details == {"given_answer": answer}
