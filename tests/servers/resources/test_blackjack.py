"""Hands of blackjack, and that a game goes on anywhere with the cards that would have come."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.servers.resources.blackjack import Blackjack, BlackjackSource, move, total, verify
from triocollect.servers.states import give_back, keep

SOURCE = BlackjackSource()
MOVES = st.lists(st.sampled_from(["deal", "hit", "stand"]), max_size=30)
ACE, TWO, NINE, TEN, KING = 0, 1, 8, 9, 12


@pytest.mark.parametrize(
    ("cards", "points"),
    [
        ((TEN, KING), 20),
        ((ACE, KING), 21),
        ((ACE, ACE + 13), 12),
        ((ACE, NINE, ACE + 13), 21),
        ((ACE, NINE, TWO), 12),
        ((TEN, KING, TWO), 22),
        ((), 0),
    ],
)
def test_an_ace_counts_as_much_as_is_good_for_the_hand(cards: tuple, points: int) -> None:
    assert total(cards) == points


@pytest.mark.parametrize(
    ("player", "dealer", "outcome"),
    [
        ((TEN, KING), (TEN + 13, KING + 13), "push"),
        ((TEN, KING), (TEN + 13, NINE), "win"),
        ((TEN, NINE), (TEN + 13, KING), "loss"),
    ],
)
def test_whoever_is_nearer_to_21_wins_when_the_player_stands(player, dealer, outcome) -> None:
    table = Blackjack(1, player=player, dealer=dealer, playing=True)
    assert move(table, "stand").outcomes == (outcome,)


def test_a_player_beyond_21_has_lost_whatever_the_dealer_holds() -> None:
    seeds = (
        Blackjack(seed, player=(TEN, KING, NINE), dealer=(TEN + 13, TWO), playing=True) for seed in range(5)
    )
    assert {move(table, "hit").outcomes for table in seeds} == {("loss",)}


def test_the_dealer_draws_to_17_and_no_further() -> None:
    for seed in range(200):
        table = move(move(Blackjack(seed), "deal"), "stand")
        if isinstance(table, Blackjack):
            assert total(table.dealer) >= 17
            assert total(table.dealer[:-1]) < 17 or len(table.dealer) == 2


def test_a_hand_of_21_is_over_when_it_is_dealt() -> None:
    tables = [move(Blackjack(seed), "deal") for seed in range(300)]
    naturals = [table for table in tables if total(table.player) == 21]
    assert naturals
    assert all(not table.playing and table.outcomes[0] in {"win", "push"} for table in naturals)


@given(st.integers(0, 2**48 - 1), MOVES)
def test_no_card_is_dealt_twice_in_a_hand(seed: int, moves: list[str]) -> None:
    table = Blackjack(seed)
    for tool in moves:
        after = move(table, tool)
        table = table if isinstance(after, str) else after
        cards = table.player + table.dealer
        assert len(set(cards)) == len(cards)


@given(st.integers(0, 2**48 - 1), MOVES, st.integers(0, 30))
def test_a_game_that_goes_on_from_a_record_gets_the_cards_that_would_have_come(seed, moves, cut) -> None:
    whole = went_on = Blackjack(seed)
    for nth, tool in enumerate(moves):
        if nth == cut:
            went_on = give_back(keep(went_on), Blackjack)
        whole, went_on = (SOURCE.call(table, tool, b"{}").state for table in (whole, went_on))
    assert went_on == whole


def test_a_move_that_is_none_now_is_told_and_changes_nothing() -> None:
    table = Blackjack(5)
    for tool in ("hit", "stand"):
        step = SOURCE.call(table, tool, b"{}")
        assert step.state is table
        assert step.output["error"] == "no hand is being played: deal"
    playing = SOURCE.call(table, "deal", b"{}").state
    assert SOURCE.call(playing, "deal", b"{}").output["error"] == "a hand is being played: hit or stand"


def test_the_second_card_of_the_dealer_is_covered_while_the_hand_is_played() -> None:
    shown = SOURCE.call(Blackjack(5), "deal", b"{}").output
    assert (len(shown["player"]), len(shown["dealer"]), shown["outcome"]) == (2, 1, None)
    table = SOURCE.call(Blackjack(5), "deal", b"{}").state
    assert len(SOURCE.call(table, "stand", b"{}").output["dealer"]) >= 2


def test_the_reward_is_what_a_hand_brought_on_average() -> None:
    table = Blackjack(1, effects=9, outcomes=("win", "push", "loss", "win"))
    assert verify(table, 4).reward == pytest.approx(2.5 / 4)
    assert verify(table, 2).reward == 0.75, "a hand beyond those of the row counts nothing"
    assert verify(table, 8).reward == pytest.approx(2.5 / 8), "a hand that was not played is lost"


def test_arguments_and_rows_that_are_none_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="cards"):
        SOURCE.call(Blackjack(1), "deal", b'{"cards": 2}')
    with pytest.raises(msgspec.ValidationError, match="hands"):
        SOURCE.verify(Blackjack(1), "", b'{"hands": 0}')


def test_no_two_games_begin_alike() -> None:
    assert len({SOURCE.begin(b"{}").seed for _ in range(50)}) == 50
