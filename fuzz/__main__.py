"""`python -m fuzz COMMAND`: explore one kind of trouble for a while, and count it.

Every command prints its account and keeps it in `.fuzz/`, from where `python -m fuzz report` sums all up;
it exits with 1 where something was violated, and then says the command that shows it again.
"""

import argparse
import importlib
import random
import sys

from fuzz import report
from fuzz.commands import COMMANDS, Explore, Options
from fuzz.tally import Account, Tally, keep


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.partition("\n")[2].strip())
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.what, description=command.what)
        one.add_argument("--seconds", type=float, default=command.seconds, help="how long (%(default)s)")
        one.add_argument("--seed", type=int, help="what the dice begin with; another each time without it")
        one.add_argument("--jobs", type=int, default=2, help="how many processes work at it (%(default)s)")
        one.add_argument("--replay", help="live what a violation named once more, and nothing else")
    commands.add_parser("report", help="the sum of all that is kept in .fuzz")
    return whole


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
    return "\n".join([head, *lines, *account.violations])


def main(words: list[str] | None = None) -> int:
    """Do what the words say. 1 where something was violated."""
    given = parser().parse_args(words)
    if given.command == "report":
        return report.show()
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    module, _, function = COMMANDS[given.command].where.partition(":")
    explore: Explore = getattr(importlib.import_module(module), function)
    tally = Tally(given.command, seed)
    try:
        explore(Options(given.seconds, seed, given.jobs, given.replay), tally)
    except (ValueError, OSError) as error:
        if given.replay is None:
            raise
        print(f"nothing to live again: {error}; --replay takes what a violation printed", file=sys.stderr)
        return 2
    if given.replay is not None:
        print("lived again")
    account = tally.account()
    print(told(account))
    if given.replay is None:
        keep(account)
    return int(bool(account.violations))


if __name__ == "__main__":
    sys.exit(main())
