"""What programs read, as it was first told: a golden is added for a new field, never edited."""

import json
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")


def same_as_golden(name, told, folder=GOLDEN):
    """Whether every field is there as in the golden; new ones may stand beside."""
    return _covers(json.loads(told), json.loads((folder / f"{name}.v1.json").read_text()))


def _covers(told, golden):
    match golden:
        case dict():
            return isinstance(told, dict) and all(
                key in told and _covers(told[key], value) for key, value in golden.items()
            )
        case list():
            return len(told) == len(golden) and all(map(_covers, told, golden))
        case _:
            return told == golden
