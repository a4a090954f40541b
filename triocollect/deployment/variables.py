"""What the environment asks of a deployment, for demonstrations and tests."""

import math
import os
from pathlib import Path
from typing import Final

from attrs import evolve

from triocollect.deployment.plan import Plan
from triocollect.errors import UsageError

EFFECTS_VARIABLE: Final = "TRIOCOLLECT_EFFECTS_DIR"  # where servers write down what was done to them
RATE_VARIABLE: Final = "TRIOCOLLECT_TOKENS_PER_S"  # how fast the scripted worker generates


def as_asked(plan: Plan) -> Plan:
    """The plan with what the environment adds to it. Raises UsageError."""
    return evolve(plan, effects_dir=_folder(EFFECTS_VARIABLE), tokens_per_s=_rate(RATE_VARIABLE))


def _folder(variable: str) -> Path | None:
    """A folder named by the environment, which is made."""
    if not (named := os.environ.get(variable)):
        return None
    folder = Path(named).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{variable}: cannot make {folder}: {error.strerror}") from error
    return folder


def _rate(variable: str) -> float | None:
    """Tokens per second, of the scripted worker."""
    if not (named := os.environ.get(variable)):
        return None
    try:
        rate = float(named)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise UsageError(f"{variable}={named!r} is not a number above 0")
    return rate
