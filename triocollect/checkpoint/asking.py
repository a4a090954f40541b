"""Ask the collector that is at work in a directory for a checkpoint, from another process of its host.

Whoever holds the lock on `collector.lock` is the collector, and nobody else is; the kernel says who that is.
A number in `collector.pid` may be stale and somebody else's by now: it only tells that the collector hears
signals. A process is pinned before the kernel is asked, so that what is signalled is what was looked at.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from triocollect.checkpoint.directory import PID, read_lock, read_outcomes, read_pid
from triocollect.checkpoint.orders import nothing_tried
from triocollect.errors import DamageError, RefusedError, StorageError
from triocollect.locking import holder_of
from triocollect.protocol.manifests import LOCK, CheckpointOutcome

PATIENCE_S: Final = 2.0  # with a collector that has its lock and no pid file yet
LOOK_S: Final = 0.05


class PinnedCollector:
    """A process that is known to be the collector, for as long as this is open."""

    def __init__(self, pid: int, pinned: int) -> None:
        self.pid: Final = pid
        self._pinned: Final = pinned

    def ask(self) -> None:
        """Raises ProcessLookupError where it has ended."""
        signal.pidfd_send_signal(self._pinned, signal.SIGUSR1)

    def ended(self, within_s: float) -> bool:
        """Wait so long for its end."""
        return bool(select.select([self._pinned], [], [], within_s)[0])


def ask(root: Path, timeout_s: float, tell: Callable[[PinnedCollector, float], None]) -> CheckpointOutcome:
    """Ask for a checkpoint and wait for what comes of it; `tell` hears of every look, with seconds waited.

    One that had begun before does not count, as it may have been cut before: where one was under way another
    one follows. What a run stops with counts always, as nothing is sent after it. Raises RefusedError where
    no collector is at work or none can be asked, DamageError, StorageError.
    """
    with collector_in(root) as collector:
        _, offset = read_outcomes(root)
        asked = time.monotonic()
        with suppress(ProcessLookupError):
            collector.ask()
        while True:
            over = collector.ended(LOOK_S)
            outcomes, offset = read_outcomes(root, offset)
            waited = time.monotonic() - asked
            for one in outcomes:
                if one.stopped and one.published:
                    return one
                if one.began is not msgspec.UNSET and one.began >= asked:
                    return one
            if over:
                return (
                    _stop_of(root, collector.pid)
                    or nothing_tried("the collector ended and took none after it was asked").outcome
                )
            if waited > timeout_s:
                why = f"no word of the collector within {timeout_s:g} s; it may still publish one"
                return nothing_tried(why).outcome
            tell(collector, waited)


def _stop_of(root: Path, pid: int) -> CheckpointOutcome | None:
    """What the collector that has just ended stopped with: it may have been cut before it was asked."""
    lock, (outcomes, _) = read_lock(root), read_outcomes(root)
    if lock is None or (lock.pid, lock.host) != (pid, os.uname().nodename):
        return None
    stops = [one for one in outcomes if one.stopped and one.epoch == lock.epoch]
    return stops[-1] if stops else None


@contextmanager
def collector_in(root: Path) -> Iterator[PinnedCollector]:
    """The collector at work there. Raises RefusedError where there is none, or it hears no signals."""
    deadline = time.monotonic() + PATIENCE_S
    while (holder := _holder(root)) is not None:
        if read_pid(root) == holder:
            with suppress(ProcessLookupError):
                pinned = os.pidfd_open(holder)
                try:
                    if _holder(root) == holder:
                        _may_be_asked(holder, pinned)
                        yield PinnedCollector(holder, pinned)
                        return
                finally:
                    os.close(pinned)
        if time.monotonic() > deadline:
            raise RefusedError(
                f"process {holder} is at work in {root} and hears no signals (it has no {PID}): it starts, "
                "or ends, or is a program of its own, which takes checkpoints with run.checkpoint()"
            )
        time.sleep(LOOK_S)
    raise RefusedError(_nobody(root))


def _holder(root: Path) -> int | None:
    """Looked for twice: a collector that takes its epoch puts a new lock file in the old one's place."""
    return holder_of(root / LOCK) or holder_of(root / LOCK)


def _may_be_asked(pid: int, pinned: int) -> None:
    try:
        signal.pidfd_send_signal(pinned, 0)
    except PermissionError:
        raise RefusedError(
            f"the collector at work, process {pid}, is another user's: ask as that one"
        ) from None


def _nobody(root: Path) -> str:
    said = f"no collector is at work in {root}"
    if not root.is_dir():
        return f"{said}: there is no such folder"
    with suppress(DamageError, StorageError):
        lock = read_lock(root)
        if lock is not None and lock.host != os.uname().nodename:
            return f"{said} on this host; the last one there was process {lock.pid} on {lock.host}: ask there"
    if (pid := read_pid(root)) is not None:
        said += f"; process {pid}, which {PID} names, is none"
    return said
