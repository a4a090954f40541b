"""Whether participants write where this run reads.

Equality of paths says nothing: one directory has many names, on one host and on several, and one name may be
many directories. So a participant tells what it reads from the lock file there, which the collector has
written a moment ago with its own process and epoch in it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from triocollect.checkpoint.line import quoted
from triocollect.checkpoint.participants import Participant
from triocollect.errors import UsageError
from triocollect.protocol.manifests import LOCK
from triocollect.protocol.messages import Seen
from triocollect.report.wording import several

_NAMED: Final = 3


def require_same_place(told: Mapping[Participant, Seen | None], path: Path, lock_sha256: str | None) -> None:
    """Raise UsageError where a participant sees another directory than `path`, or none; who says nothing may.

    `lock_sha256`: of the lock file that the collector holds there.
    """
    seen = {one: place for one, place in told.items() if place is not None}
    astray = {one: place for one, place in seen.items() if place.lock_sha256 != lock_sha256}
    if not astray:
        return
    who = ", ".join(sorted(map(str, astray))[:_NAMED])
    if len(astray) > _NAMED:
        who += f" and {several(len(astray) - _NAMED, 'more server')}"
    where = sorted({quoted(place.directory.encode()) for place in astray.values()})
    raise UsageError(
        f"{who}: keeps checkpoints in {' and '.join(where)}, which is not {path.absolute()}, where this run "
        f"keeps them (the {LOCK} that it has just written is not seen there): give the run the "
        "--checkpoint-dir of its servers, or start them with that of the run, as they see it mounted"
    )
