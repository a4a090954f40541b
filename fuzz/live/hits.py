"""A process that is hit by a signal of its own right before its K-th change of names: `TERM collector 4`.

`python hits.py "KILL collector 4 publish" run …` is the command, hit so.

Changes of names are all that a kill can tell apart: what was written and not yet synced outlives the process
as well as what was. With `publish` for a fourth word they are counted from the making of a checkpoint's
folder on, otherwise from the start; with `restore` syncs are counted, from that of the attempts that a
restore is about to install.
"""

import os
import signal
import sys
from typing import Final

CHANGES: Final = ("mkdir", "replace", "unlink", "rmdir")
SINCE: Final = {"publish": ("mkdir", "ckpt-"), "restore": ("fsync", "/dispatched.jsonl")}
BLOW_VARIABLE: Final = "FUZZ_BLOW_FD"  # a descriptor that hears of it right before


def expect(hit: str, whom: str) -> None:
    """Be hit as it is said, if it is said of this process."""
    if hit and hit.split()[1] == whom:
        name, _, at, *since = hit.split()
        blow = Blow(int(at), signal.Signals[f"SIG{name}"], SINCE[since[0]] if since else None)
        for change in ("fsync",) if since == ["restore"] else CHANGES:
            blow.precede(change)


class Blow:
    """Comes before the `at`-th call, the first being that of `since`: its name, and part of its path."""

    def __init__(self, at: int, number: signal.Signals, since: tuple[str, str] | None) -> None:
        self._left, self._number, self._since = at, number, since

    def precede(self, name: str) -> None:
        """Count the calls of this function of `os`."""
        change = getattr(os, name)

        def counted(path, *more, **options):
            if self._since is not None and name == self._since[0] and self._since[1] in _told(path):
                self._since = None
            self._left -= self._since is None
            if self._left == 0:
                if fd := os.environ.get(BLOW_VARIABLE):
                    os.write(int(fd), f"!{self._number.name} before {name}\n".encode())
                os.kill(os.getpid(), self._number)
            return change(path, *more, **options)

        setattr(os, name, counted)


def _told(path) -> str:
    return os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fspath(path)  # noqa: PTH115


if __name__ == "__main__":
    expect(sys.argv.pop(1), "collector")
    from triocollect.__main__ import main

    sys.exit(main())
