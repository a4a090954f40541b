"""A run over rows of every shipped data set, stopped in the middle, is equal to one that never was."""

import signal

import pytest

from fuzz.oracle import judge, uninterrupted
from tests.processes.lives import Lives
from triocollect.deployment import datasets
from triocollect.reading.examining import verify_run
from triocollect.reading.places import places

pytestmark = pytest.mark.processes

TOKENS_PER_S = 40.0
GAMES = ("counter", "blackjack", "sql")


@pytest.fixture
def data(tmp_path):
    """A row of each verifier's, and three of each environment's, those first."""
    names = (*GAMES, *(name for name in datasets.NAMES if name not in GAMES))
    lines = [datasets.path(name).read_bytes().splitlines(keepends=True) for name in names]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(
        b"".join(
            b"".join(of_one[: 3 if name in GAMES else 1]) for name, of_one in zip(names, lines, strict=True)
        )
    )
    return file


def test_a_stopped_run_of_every_server_goes_on_with_the_cards_and_tables_it_had(tmp_path, data):
    whole = Lives(tmp_path / "whole", data=data)
    life, words = whole.live()
    assert life.code == 0, words
    wholes = uninterrupted(life)
    assert judge([life], wholes) == []

    lives = Lives(tmp_path / "cut", data=data, tokens_per_s=TOKENS_PER_S)
    life, words = lives.live(lives.after(18, lambda run: run.send_signal(signal.SIGTERM)))
    assert life.code == 75, words
    states = [boundary.state for boundary in life.checkpoint.kept.values() if boundary.state is not None]
    assert {type(state.value) for state in states} == {int, str}, "counters and others were under way"
    life, words = lives.live()
    assert life.code == 0, words
    assert judge(lives.seen, wholes) == []
    cut = tmp_path / "cut"
    verified = verify_run(places(cut), cut, cut / "accounts")
    assert verified.holds
    assert verified.account.results == 3 * len(GAMES)
    assert verified.account.continued > 0
