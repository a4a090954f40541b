"""A fault counts once however often it is injected, and a violation is neither lost nor forgiven."""

from fuzz.report import report, show
from fuzz.tally import Tally, keep, kept


def tally(command="sim", seed=1, places=("a", "b")):
    made = Tally(command, seed)
    for place in places:
        made.fault("kill", place, "story 1", "continued")
    return made


def test_a_fault_that_two_commands_of_one_kind_inject_counts_once(tmp_path):
    keep(tally(seed=1, places=("a", "b", "b")).account(), tmp_path)
    keep(tally(seed=2, places=("b", "c")).account(), tmp_path)
    row = next(line for line in report(kept(tmp_path)).splitlines() if line.startswith("sim: kill"))
    assert row.split()[-3:] == ["5", "3", "1"]


def test_what_another_process_counted_is_taken_in():
    other = tally(places=("b", "c"))
    other.violation("invariant 2 is broken: sent twice", "python -m fuzz sim --replay x")
    mine = tally(places=("a", "b"))
    mine.take_in(other.account())
    account = mine.account()
    assert (account.kinds["kill"].injected, len(account.kinds["kill"].digests)) == (4, 3 * 8)
    assert "violations: 1" in report([account])
    assert "python -m fuzz sim --replay x" in report([account])


def test_a_file_that_is_no_account_is_named(tmp_path, capsys):
    (tmp_path / "sim-1.msgpack").write_bytes(b"nonsense")
    assert show(tmp_path) == 2
    assert f"{tmp_path / 'sim-1.msgpack'} is no account of this fuzz" in capsys.readouterr().err


def test_the_share_of_mutated_files_is_said():
    assert "mutated files: 50.0%" in report([tally().account(), tally(command="files").account()])
