"""Room for the connections that a concurrency needs: each row in flight holds one."""

import resource
from typing import Final

from triocollect.errors import UsageError

PER_ROW: Final = 2  # a connection that was left and one that is being made
BESIDES: Final = 64  # files, pipes, control calls


def make_room(concurrency: int) -> None:
    """Raise the limit on open files as far as it is needed; the servers that a run starts inherit it.

    Raises UsageError where the machine does not allow so many: rows would fail or hang without a reason.
    """
    needed = PER_ROW * concurrency + BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(1, (hard - BESIDES) // PER_ROW)
        raise UsageError(
            f"--concurrency {concurrency} needs up to {needed} open files, and this process may have {hard}: "
            f"go on with --concurrency {most}, or raise the limit (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
