"""`python -m fuzz COMMAND`: explore one kind of trouble for a while, and count it.

Every command prints its account and keeps it in `.fuzz/`, from where `python -m fuzz report` sums all up;
it exits with 1 where something was violated, and then says the command that shows it again.
`python -m fuzz all` is every command in turn, for 40 minutes.
"""

import argparse
import math
import random
import sys
from pathlib import Path

from fuzz import report
from fuzz.commands import COMMANDS, Options, function_of
from fuzz.everything import INTERRUPTED, MINUTES, Everything, described
from fuzz.heard import ended_by, hear, take_others_as_ctrl_c
from fuzz.pinned import pin
from fuzz.tally import FOLDER, Account, Tally, keep

SEED = "what the dice begin with; another each time without it"
_MOST_DIGITS = 4
JOBS = "how many processes work at it (%(default)s)"


def above_0(text: str) -> float:
    """A time. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def at_least_1(text: str) -> int:
    """How many. Raises ArgumentTypeError."""
    digits = text.lstrip("0")
    if not (text.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number above 0 and below {10**_MOST_DIGITS}"
        )
    return int(digits)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.partition("\n")[2].strip())
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.what, description=command.what)
        one.add_argument("--seconds", type=above_0, default=command.seconds, help="how long (%(default)s)")
        one.add_argument("--seed", type=int, help=SEED)
        one.add_argument("--jobs", type=at_least_1, default=2, help=JOBS)
        one.add_argument("--replay", help="live what a violation named once more, and nothing else")
    _add_all(commands)
    summing = commands.add_parser("report", help="the sum of all that is kept in a folder")
    summing.add_argument("--folder", type=Path, default=FOLDER, help="of which accounts (%(default)s)")
    return whole


def _add_all(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    everything = commands.add_parser(
        "all",
        help="each of them in turn, for 40 minutes, and the sum of all",
        description=(
            "Every command that explores, one after another, and at the end the report of this pass alone: "
            "how many different faults of each kind, how many ends each kind had, the share of mutated "
            "files, and every violation with the command that shows it again. A violation is printed "
            "after its turn of two minutes and ends nothing; the exit code is 1 then. A command that "
            "this machine has not the means for is left out, and told."
        ),
        epilog=f"Parts of the time: {described()}.",
    )
    everything.add_argument("--minutes", type=above_0, default=MINUTES, help="how long (%(default)s)")
    everything.add_argument("--seed", type=int, help=SEED)
    everything.add_argument("--jobs", type=at_least_1, default=2, help=JOBS)


def told(account: Account) -> str:
    """The account for people."""
    width = max(map(len, account.kinds), default=0)
    lines = [
        f"  {name:<{width}}  injected {kind.injected:,}, distinct {kind.distinct:,}; "
        + ", ".join(f"{outcome} {count:,}" for outcome, count in sorted(kind.outcomes.items()))
        for name, kind in account.kinds.items()
    ]
    head = (
        f"{account.command}: explored {account.explored:,} in {account.seconds:.1f} s, seed {account.seed}, "
        f"violations {len(account.violations)}"
    )
    legend = [
        "  each fault: how often, at how many different places and stories; and how that ended, how often"
    ]
    return "\n".join([head, *legend * bool(lines), *lines, *account.violations])


def main(words: list[str] | None = None) -> int:
    """Do what the words say. 1: something was violated, 2: it cannot be done, 130: a Ctrl-C."""
    given = parser().parse_args(words)
    if given.command == "report":
        return report.show(given.folder)
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    if given.command == "all":
        return Everything(given.minutes * 60.0, seed, given.jobs).explore()
    explore = function_of(COMMANDS[given.command])
    tally, code = Tally(given.command, seed), 0
    if given.replay is None:
        print(_begins(given.command, given.seconds, seed, given.jobs), file=sys.stderr, flush=True)
    try:
        explore(Options(given.seconds, seed, given.jobs, given.replay), tally)
    except KeyboardInterrupt:
        print("interrupted; until then:")
        code = INTERRUPTED
    except (ValueError, OSError) as error:
        if given.replay is not None:
            print(_no_replay(given.command, given.replay, error), file=sys.stderr)
            return 2
        if not isinstance(error, OSError):
            raise
        print(f"{given.command} cannot go on: {error}; mend that and begin again; until then:")
        code = 2
    if given.replay is not None and not code:
        print("lived again")
    account = tally.account()
    print(told(account), flush=True)
    if given.replay is None:
        unkept = _kept(account)
        code = code or unkept
    return code or int(bool(account.violations))


def _begins(command: str, seconds: float, seed: int, jobs: int) -> str:
    """What is going to happen, so that nobody has to wonder at the silence until then."""
    until = f" for {seconds:g} s, then its account" if seconds else ""
    return f"{command}: seed {seed}, {jobs} process{'es' * (jobs > 1)}{until}"


def _no_replay(command: str, text: str, error: ValueError | OSError) -> str:
    """What is wrong with it, in a sentence; not in a parser's words."""
    if isinstance(error, OSError):
        return f"nothing can be lived again: {error}"
    looks = COMMANDS[command].again
    return (
        f"nothing to live again: {text!r} is no replay of {command}, which is {looks}; "
        "paste what a violation printed"
    )


def _kept(account: Account) -> int:
    """0, or 2 where there is no place for it."""
    try:
        keep(account)
    except OSError as error:
        print(f"this account is not kept for the report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    pin()
    take_others_as_ctrl_c()
    hear()  # or the runs that it starts would not
    try:
        code = main()
    except KeyboardInterrupt:  # before it began, or a second one
        print("interrupted")
        code = INTERRUPTED
    sys.exit(ended_by() or code if code == INTERRUPTED else code)
