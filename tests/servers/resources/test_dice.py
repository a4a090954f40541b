"""Random numbers that can be gone on with anywhere."""

from triocollect.servers.resources import dice


def test_the_numbers_are_those_of_splitmix64() -> None:
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]  # the reference's, of 1234567
    assert [dice.word(1234567, nth) for nth in range(3)] == known


def test_every_side_of_a_die_comes_up() -> None:
    assert {dice.below(6, 7, nth) for nth in range(100)} == set(range(6))


def test_a_seed_is_kept_whole_by_every_reader_of_json() -> None:
    assert all(0 <= dice.new_seed() < 2**53 for _ in range(20))
