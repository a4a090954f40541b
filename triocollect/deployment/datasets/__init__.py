"""Data sets that ship with the package, for the demo and for tests: one JSONL file per name."""

from pathlib import Path
from typing import Final

from triocollect.errors import UsageError

NAMES: Final = (
    "arithmetic",
    "blackjack",
    "counter",
    "echo",
    "instructions",
    "json_schema",
    "multiple_choice",
    "sql",
)


def path(name: str) -> Path:
    """Where a data set lies. Raises UsageError for one that does not exist."""
    if name not in NAMES:
        raise UsageError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    return Path(__file__).with_name(f"{name}.jsonl")
