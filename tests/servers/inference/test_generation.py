"""The worker's own counts."""

from triocollect.servers.inference.generation import Tallies


def test_the_keys_used_last_are_counted_one_by_one_and_all_of_them_together():
    tallies = Tallies(keys_kept=2)
    for key in ("a", "b", "a", "c", None):
        for tally in tallies.of(key):
            tally.begin(input_tokens=1)
    assert {key: tally.calls for key, tally in tallies.by_key.items()} == {"a": 2, "c": 1}
    assert tallies.total.calls == 5
