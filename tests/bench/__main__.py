"""`python -m tests.bench NAME`: JSON lines on stdout, one per case; notes on stderr.

A line is `{"bench", "case", "n", "rounds", "load", "ours", "peer", "ratio"}`. The figures are medians over
the rounds, `ratio` is ours by the peer's, `load` the load average of one minute before the case began.
"""

import argparse
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from tests.bench.harness import BenchError, Figures, Plan, Result, end_children_on_term, note

NAMES: Final = (
    "dispatch",
    "memory",
    "resume",
    "churn",
    "startup",
    "preempt",
    "checkpoint",
    "restore",
    "signals",
    "telemetry",
    "workers",
)
ROUNDS: Final = 5


class Bench(Protocol):
    """What a module of this folder that is a bench has."""

    CASES: Sequence[str]
    measure_case: Callable[[str, Plan], Result]


def main(arguments: Sequence[str] | None = None) -> int:
    """0; 1 when something must not be believed and was not printed; 2 for a bench or case there is not."""
    options = _parser().parse_args(arguments)
    end_children_on_term()
    _allow_many_connections()
    bench = cast("Bench", importlib.import_module(f"tests.bench.{options.name}"))
    if options.case is not None and options.case not in bench.CASES:
        note(f"{options.name} has no case {options.case!r}; it has {', '.join(bench.CASES)}")
        return 2
    plan = Plan(options.rounds or (1 if options.quick else ROUNDS), quick=options.quick)
    for case in bench.CASES if options.case is None else [options.case]:
        note(f"{options.name} {case}: {plan.rounds} rounds")
        load = os.getloadavg()[0]
        try:
            result = bench.measure_case(case, plan)
        except BenchError as problem:
            note(f"{options.name} {case}: {problem}")
            return 1
        sys.stdout.write(_line(options.name, case, plan, load, result))
        sys.stdout.flush()
    return 0


def _line(bench: str, case: str, plan: Plan, load: float, result: Result) -> str:
    line = {
        "bench": bench,
        "case": case,
        "n": result.n,
        "rounds": plan.rounds,
        "load": round(load, 2),
        "ours": _rounded(result.ours),
        "peer": _rounded(result.peer),
        "ratio": _rounded(result.ratio),
    }
    return json.dumps(line) + "\n"


def _rounded(figures: Figures) -> Figures:
    """Six significant digits of what was divided; counts and bytes as they are."""
    return {
        name: value if isinstance(value, int) else float(f"{value:.6g}") for name, value in figures.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure against a peer.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="under 20 s: format and gross errors only")
    parser.add_argument("--rounds", type=_count, metavar="N", help=f"default {ROUNDS}, with --quick 1")
    parser.add_argument("--case", help="only this one")
    return parser


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise ValueError(text)
    return count


def _allow_many_connections() -> None:
    """Both sides and the stub inherit it: 4,096 connections are more than a shell's usual 1,024 files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
