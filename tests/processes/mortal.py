"""`python mortal.py K run …`: the command, killed before its K-th change of names on the way to a publish.

Changes are counted from the making of a checkpoint's folder on; with a K below 0 from the start on. Those of
names are all that a kill can tell apart: what was written and not yet synced outlives the process as well as
what was. Servers are not mortal.
"""

import os
import signal
import sys

CHANGES = ("mkdir", "replace", "unlink", "rmdir")


class Death:
    """Comes before the `at`-th change."""

    def __init__(self, at):
        self._left, self._began = abs(at), at < 0

    def precede(self, name):
        change = getattr(os, name)

        def mortal(path, *more, **options):
            self._began = self._began or (name == "mkdir" and "ckpt-" in os.fspath(path))
            self._left -= self._began
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(path, *more, **options)

        setattr(os, name, mortal)


if __name__ == "__main__":
    death = Death(int(sys.argv.pop(1)))
    for name in CHANGES:
        death.precede(name)
    from triocollect.__main__ import main

    sys.exit(main())
