"""A process that is hit by a signal of its own right before its K-th change of names: `TERM collector 4`.

`python hits.py "KILL collector 4 publish" run …` is the command, hit so.

Changes of names are all that a kill can tell apart: what was written and not yet synced outlives the process
as well as what was. With `publish` for a fourth word they are counted from the making of a checkpoint's
folder on, otherwise from the start.
"""

import os
import signal
import sys
from typing import Final

CHANGES: Final = ("mkdir", "replace", "unlink", "rmdir")
BLOW_VARIABLE: Final = "FUZZ_BLOW_FD"  # a descriptor that hears of it right before


def expect(hit: str, whom: str) -> None:
    """Be hit as it is said, if it is said of this process."""
    if hit and hit.split()[1] == whom:
        name, _, at, *since = hit.split()
        blow = Blow(int(at), signal.Signals[f"SIG{name}"], started=not since)
        for change in CHANGES:
            blow.precede(change)


class Blow:
    """Comes before the `at`-th change."""

    def __init__(self, at: int, number: signal.Signals, *, started: bool) -> None:
        self._left, self._number, self._started = at, number, started

    def precede(self, name: str) -> None:
        """Count the calls of this function of `os`."""
        change = getattr(os, name)

        def counted(path, *more, **options):
            self._started = self._started or (name == "mkdir" and "ckpt-" in os.fspath(path))
            self._left -= self._started
            if self._left == 0:
                if fd := os.environ.get(BLOW_VARIABLE):
                    os.write(int(fd), f"!{self._number.name} before {name}\n".encode())
                os.kill(os.getpid(), self._number)
            return change(path, *more, **options)

        setattr(os, name, counted)


if __name__ == "__main__":
    expect(sys.argv.pop(1), "collector")
    from triocollect.__main__ import main

    sys.exit(main())
