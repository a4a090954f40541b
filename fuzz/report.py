"""The sum of all faults by kind, with the share of each and how many different ends each kind had."""

import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from fuzz.tally import Account, kept

MOST_OF_PARSERS: Final = (
    0.2  # mutated files are cheap; more of them would hide how few of the others there are
)
_PARSER_COMMAND: Final = "files"


def report(accounts: list[Account]) -> str:
    """The table, and below it what a reader has to know: the sum, the parsers' share, the violations."""
    digests: defaultdict[str, set[bytes]] = defaultdict(set)
    injected: Counter[str] = Counter()
    outcomes: defaultdict[str, set[str]] = defaultdict(set)
    for account in accounts:
        for name, kind in account.kinds.items():
            title = f"{account.command}: {name}"
            injected[title] += kind.injected
            digests[title].update(kind.each())
            outcomes[title].update(kind.outcomes)
    total = sum(map(len, digests.values()))
    parsers = sum(len(digests[name]) for name in digests if name.startswith(f"{_PARSER_COMMAND}:"))
    lines = [f"{'kind':<52} {'injected':>10} {'distinct':>10} {'ends':>5}"]
    lines += [
        f"{name:<52} {injected[name]:>10,} {len(digests[name]):>10,} {len(outcomes[name]):>5}"
        for name in sorted(digests)
    ]
    violations = [words for account in accounts for words in account.violations]
    explored, seconds = sum(each.explored for each in accounts), sum(each.seconds for each in accounts)
    share = parsers / total if total else 0.0
    lines += [
        f"{'all':<52} {sum(injected.values()):>10,} {total:>10,}",
        f"mutated files: {share:.1%} of the distinct ones (at most {MOST_OF_PARSERS:.0%})",
        f"explored {explored:,} in {seconds:,.0f} s of work",
        f"violations: {len(violations)}",
        *violations,
    ]
    return "\n".join(lines)


def show(folder: Path) -> int:
    """Print that of a folder's accounts. 1: something was violated, or nothing kept; 2: it is unreadable."""
    try:
        accounts = kept(folder)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if not accounts:
        print(f"nothing is kept in {folder}: run a command first, `python -m fuzz --help` names them")
        return 1
    print(report(accounts))
    return int(any(account.violations for account in accounts))
