"""Whether a collector is at work, without taking its lock: not even a moment of that may disturb it."""

import contextlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from triocollect.checkpoint.directory import read_lock, read_pid
from triocollect.locking import holder_of
from triocollect.protocol.manifests import LOCK, LockFile


class Collector(msgspec.Struct, frozen=True, kw_only=True):
    """Who collects into a checkpoint directory, or did last.

    "unknown": the lock file names another host, or this file system has no locks, and the process may live.
    `since` is UTC, ISO 8601; `epoch` counts the collectors of the directory.
    """

    at_work: Literal["yes", "no", "unknown"]
    pid: int | None = None
    host: str | None = None
    since: str | None = None
    epoch: int = 0

    def words(self) -> str:
        """A sentence of it."""
        who = f"process {self.pid} on {self.host}, since {self.since}"
        match self.at_work:
            case "yes":
                return f"at work: {who}" if self.host else f"at work: process {self.pid}"
            case "unknown":
                return f"may be at work: {who}; only that host can tell"
            case "no":
                return f"nobody is at work; the last was {who}" if self.host else "nobody is or was at work"


def collector_of(root: Path) -> Collector:
    """Who it is. Raises DamageError, StorageError where the lock file cannot be read."""
    lock, holder = read_lock(root), holder_of(root / LOCK)
    if lock is None:
        return Collector(at_work="no" if holder is None else "yes", pid=holder)
    return Collector(
        at_work="yes" if holder is not None else _without_a_lock(root, lock),
        pid=lock.pid if holder is None else holder,
        host=lock.host,
        since=lock.started,
        epoch=lock.epoch,
    )


def _without_a_lock(root: Path, lock: LockFile) -> Literal["no", "unknown"]:
    if read_pid(root) != lock.pid:  # it took that away when it ended
        return "no"
    if lock.host != os.uname().nodename:
        return "unknown"
    with contextlib.suppress(ProcessLookupError):
        with contextlib.suppress(PermissionError):
            os.kill(lock.pid, 0)
        return "unknown"
    return "no"
