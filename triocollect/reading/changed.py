"""Whether the input of a run holds other rows now than it was begun with."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import UNSET

from triocollect.collector.identity import GYM_NUMBERING, input_digest
from triocollect.errors import InputError
from triocollect.protocol.files import RunFile
from triocollect.rows.numbers import TaskNumbers
from triocollect.rows.source import Source


def changed_input(run_file: RunFile) -> str | None:
    """A sentence about it where it has changed; None also where it cannot be read or found.

    One that was not touched since the run began is not read.
    """
    said = "" if run_file.values is UNSET else run_file.values.get("input", "")
    path, digest = Path(said.removesuffix(GYM_NUMBERING)), run_file.fields.get("input")
    gym = said.endswith(GYM_NUMBERING)
    with suppress(OSError, ValueError, InputError):
        if path.is_absolute() and digest is not None and _touched_since(path, run_file.created):
            numbers = TaskNumbers(gym=gym)
            for line in Source(path).lines():
                numbers.digest(line)
            if input_digest(numbers.of_all, gym=gym) != digest:
                return (
                    f"its input {path} holds other rows than when the run began: the same command is "
                    "refused, --accept-drift input goes on"
                )
    return None


def _touched_since(path: Path, created: str) -> bool:
    """In content or in name. Raises OSError where it is not there, ValueError for what is no time."""
    began = datetime.fromisoformat(created)
    return path.stat().st_ctime >= began.replace(tzinfo=began.tzinfo or UTC).timestamp()
