"""A start without servers: all that a run reads and changes before its first word to one, by its own code.

The steps are the package's functions, in its order. It has no one function of them, as in a real start each
stands under a deadline of its own, or gives way to a stop, and between the last two the servers are asked;
`test_starting.py` shows that a real run makes the same calls on files, in the same order.
"""

from collections.abc import Coroutine
from typing import TypeVar

from attrs import frozen

from triocollect.checkpoint.directory import Directory, open_directory
from triocollect.checkpoint.dispatch_log import DispatchLog
from triocollect.checkpoint.store import Store
from triocollect.collector.inherited import Inherited
from triocollect.collector.lock import lock_output
from triocollect.collector.set_out import Outset, OwnStore, set_out
from triocollect.collector.taking_control import begin_log, look_back
from triocollect.config.settings import Config
from triocollect.durable import AppendFile

T = TypeVar("T")


@frozen
class Begun:
    """A start that has come as far as its first word to a server. `told`: what the user was told.

    Nothing but locks and words where the input has no rows.
    """

    directory: Directory
    store: Store
    told: list[str]
    outset: Outset | None = None
    inherited: Inherited | None = None
    log: DispatchLog | None = None

    def close(self) -> None:
        """As a kill does."""
        if self.log is not None:
            self.log.close()
        if self.outset is not None:
            self.outset.sinks.close()
        self.directory.close()


def begin(config: Config) -> Begun:
    """Start in a folder, whatever is there. Raises TriocollectError; everything is closed then."""
    told: list[str] = []
    directory = _at_once(open_directory(config.checkpoint.dir, wait_s=None, warn=told.append))
    try:
        locked = _at_once(lock_output(config.output.path, wait_s=None, warn=told.append))
    except BaseException:
        directory.close()
        raise
    outset = None
    try:
        store = Store(config.checkpoint.dir, confirm=directory.confirm)
        output = AppendFile(locked.path, descriptor=locked.descriptor)
        own = OwnStore(store, directory.run)
        outset = set_out(config, output, None, lambda event: told.append(str(event)), own)
        if outset is None:
            output.close()
            return Begun(directory, store, told)
        left = look_back(directory, store, outset)
        log = begin_log(directory, store, outset, left, seen=0)
        return Begun(directory, store, told, outset, left, log)
    except BaseException:
        if outset is None:
            locked.give_back()
        else:
            outset.sinks.close()
        directory.close()
        raise


def _at_once(work: Coroutine[object, object, T]) -> T:
    """What a coroutine returns that has no reason to wait: the locks are free."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a start waits for something")
