"""The pass of all commands ends with the sum of that pass, whatever one of them finds, needs or breaks of."""

import os
import signal
import time

import pytest
import trio

from fuzz import jobs
from fuzz.__main__ import main, parser
from fuzz.commands import COMMANDS, Command, Options, again
from fuzz.everything import INTERRUPTED, TURN_S, Everything
from fuzz.heard import ended_by, take_others_as_ctrl_c
from fuzz.jobs import share
from fuzz.simulation import lives
from fuzz.tally import FOLDER, Tally, keep, kept

HERE = "fuzz.test_everything"


def counts(options, tally):
    for nth in range(10):
        tally.fault("kill", "a call", f"{options.seed} {nth}", "goes on")
    tally.explored += 1


def finds_something(_options, tally):
    tally.violation("invariant 2 is broken: sent twice", "python -m fuzz finds_something --replay x")


def breaks(_options, _tally):
    raise RuntimeError("nobody thought of that")


def needs_root(_options, _tally):
    raise SystemExit("needs root")


def dies_of_its_seed(options, tally):
    """Where there are two, the second."""
    if options.seed != 1:
        os._exit(9)
    counts(options, tally)


def whole_pass(tmp_path, *functions, seconds=1.0):
    commands = {one.__name__: Command(f"{HERE}:{one.__name__}", "", 0.0, part=1.0) for one in functions}
    return Everything(seconds, 1, 1, commands, tmp_path)


def test_what_one_command_finds_needs_or_breaks_of_stops_no_other(tmp_path, capsys):
    everything = whole_pass(tmp_path, finds_something, breaks, needs_root, counts)
    assert everything.explore() == 1
    told = capsys.readouterr().out
    assert "to see it again: python -m fuzz finds_something --replay x" in told
    assert "RuntimeError: nobody thought of that\nto see it again: python -m fuzz breaks --seconds" in told
    assert "left out: needs_root: needs root" in told
    assert "counts: kill" in told
    assert "violations: 2" in told


def test_the_report_is_of_this_pass_and_not_of_those_before(tmp_path, capsys):
    old = Tally("counts", 1)
    old.violation("invariant 1 is broken: long mended", "python -m fuzz counts --replay y")
    keep(old.account(), tmp_path)
    keep(old.account(), tmp_path / "all-1")
    assert whole_pass(tmp_path, counts).explore() == 0
    assert "long mended" not in capsys.readouterr().out


def test_every_turn_of_a_command_has_dice_of_its_own(tmp_path):
    everything = whole_pass(tmp_path, counts, seconds=3 * TURN_S)
    assert everything.explore() == 0
    (account,) = kept(everything.folder)
    assert (account.explored, account.kinds["kill"].distinct) == (3, 30)


def test_a_process_that_dies_is_blamed_alone_with_words_that_have_it_die_again():
    tally = Tally("sim", 1)
    share(dies_of_its_seed, Options(7.0, 1, 2), tally)
    assert tally.account().kinds["kill"].distinct == 10
    (words,) = tally.violations
    assert words.endswith("python -m fuzz sim --seconds 7 --seed 7920 --jobs 1")


def breaks_where_the_seed_is_1(options, tally):
    """Where there are two, the first; the second finds something."""
    counts(options, tally)
    if options.seed == 1:
        raise ValueError("nobody thought of that")
    finds_something(options, tally)


def test_what_a_process_counted_before_it_broke_and_what_others_found_is_not_lost():
    tally = Tally("sim", 1)
    with pytest.raises(ValueError, match="nobody thought of that"):
        share(breaks_where_the_seed_is_1, Options(7.0, 1, 2), tally)
    assert tally.account().kinds["kill"].distinct == 20
    assert len(tally.violations) == 1


def finds_something_before_a_ctrl_c(options, tally):
    finds_something(options, tally)
    counts(options, tally)
    raise KeyboardInterrupt


def test_a_pass_that_a_ctrl_c_ends_tells_what_its_last_turn_found(tmp_path, capsys):
    everything = whole_pass(tmp_path, finds_something_before_a_ctrl_c, counts)
    assert everything.explore() == INTERRUPTED
    told = capsys.readouterr().out
    assert "to see it again: python -m fuzz finds_something --replay x" in told
    assert "violations: 1" in told
    (account,) = kept(everything.folder)
    assert account.kinds["kill"].distinct == 10


def test_a_turn_of_less_than_a_second_is_done_again_with_words_that_are_understood():
    words = again("files", Options(0.3, 7)).split()[3:]
    given = parser().parse_args([*words, "--jobs", "0002"])
    assert (given.seconds, given.jobs) == (1.0, 2)


def interrupted_at_once(options, tally):
    """The first tells the process that waits, which has to tell both."""
    counts(options, tally)
    if options.seed == 1:
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(600.0)


def test_a_ctrl_c_ends_every_process_and_loses_nothing_that_was_counted(monkeypatch):
    monkeypatch.setattr(jobs, "TIDYING_S", 1.0)
    tally = Tally("sim", 1)
    with pytest.raises(KeyboardInterrupt):
        share(interrupted_at_once, Options(7.0, 1, 2), tally)
    assert tally.account().kinds["kill"].distinct >= 10


def terminated_at_once(options, tally):
    """As by `timeout`: whoever waits is told, and then everybody, in whichever order they hear of it."""
    counts(options, tally)
    if options.seed == 1:
        os.kill(os.getppid(), signal.SIGTERM)
        os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600.0)


@pytest.fixture
def handlers():
    """They are as they were afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_term_ends_every_process_as_a_ctrl_c_does_and_loses_nothing_that_was_counted():
    tally = Tally("sim", 1)
    take_others_as_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        share(terminated_at_once, Options(7.0, 1, 2), tally)
    assert ended_by() == 143
    assert not tally.violations
    assert tally.account().kinds["kill"].distinct >= 10


def test_a_ctrl_c_that_comes_within_trio_itself_breaks_no_invariant():
    fault = trio.TrioInternalError("internal error in Trio")
    fault.__cause__ = KeyboardInterrupt()
    assert lives.broken_off(fault) is fault.__cause__


@pytest.mark.usefixtures("handlers")
def test_a_terminal_that_is_closed_is_a_ctrl_c_unless_nohup_has_it_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    take_others_as_ctrl_c()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN, "the runs that it starts hear it"
    assert ended_by() is None
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    take_others_as_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    assert ended_by() == 129


def test_a_command_that_a_ctrl_c_ends_keeps_its_account_for_the_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = Command(f"{HERE}:{finds_something_before_a_ctrl_c.__name__}", "", 1.0)
    monkeypatch.setitem(COMMANDS, "sim", command)
    assert main(["sim"]) == INTERRUPTED
    (account,) = kept(FOLDER)
    assert account.kinds["kill"].distinct == 10


@pytest.mark.parametrize(
    "words",
    [
        ["sim", "--seconds", "-1"],
        ["sim", "--seconds", "nan"],
        ["sim", "--jobs", "0"],
        ["sim", "--jobs", "20000"],
        ["all", "--minutes", "0"],
    ],
)
def test_what_would_explore_nothing_is_told_and_not_done(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "above 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["killpoints", "ioerrors", "sim", "files", "peers", "crashstates"])
@pytest.mark.parametrize("text", ["", "nonsense"])
def test_a_replay_of_what_there_is_not_is_told_at_once(command, text, capsys):
    assert main([command, "--replay", text]) == 2
    said = capsys.readouterr().err
    assert f"nothing to live again: {text!r} is no replay of {command}, which is " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["files", "peers"])
def test_a_replay_of_another_name_is_not_told_as_a_broken_promise(command, capsys):
    assert main([command, "--replay", "nowhere:1"]) == 2
    assert f"nothing to live again: 'nowhere:1' is no replay of {command}" in capsys.readouterr().err


def test_a_pass_has_a_part_for_everything_that_explores():
    assert {name for name, one in COMMANDS.items() if not one.part} == {"mutants"}
