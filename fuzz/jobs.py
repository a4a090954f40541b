"""Several processes at one command, each with dice of its own; the first adds up what they counted."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeAlias

from attrs import evolve

from fuzz.commands import Options, again
from fuzz.heard import take_others_as_ctrl_c
from fuzz.tally import Account, Tally

Work: TypeAlias = Callable[[Options, Tally], None]
_Counted: TypeAlias = tuple[Account, BaseException | None]  # and what ended it
_APART = 7919  # between the seeds of two processes
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TIDYING_S = 5.0  # in which who heard a Ctrl-C has ended


def share(work: Work, options: Options, tally: Tally) -> None:
    """Have `work`, a function of a module, done by `options.jobs` processes; the first has the seed given.

    Raises KeyboardInterrupt at a Ctrl-C, or what the first that broke has raised, with all that anybody
    counted until then taken in.
    """
    jobs = 1 if options.replay is not None else options.jobs
    if jobs <= 1:
        if _interrupted(work, options, tally):
            raise KeyboardInterrupt
        return
    shares = [evolve(options, seed=options.seed + nth * _APART, jobs=1) for nth in range(jobs)]
    with contextlib.ExitStack() as pools:  # one each: a process that dies takes no other with it
        doing, broke = [], []
        for one in shares:
            with _deaf():  # it is born so, and hears nothing of the kind but while it works
                pool = pools.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
                doing.append((one, pool.submit(_counted, work, tally.command, one)))
        interrupted = _heard_while_waiting([done for _, done in doing])
        for one, done in doing:
            try:
                account, error = done.result()
            except BrokenProcessPool:
                tally.violation("a process died of what it met", again(tally.command, one))
            else:
                tally.take_in(account)
                broke += [error] * (error is not None)
    for error in broke:  # the first, once all are taken in
        raise error
    if interrupted:
        raise KeyboardInterrupt


def _heard_while_waiting(doing: Sequence[Future[_Counted]]) -> bool:
    """Whether a Ctrl-C came; then all hear of it, also where it was sent to this process alone."""
    try:
        wait(doing)
    except KeyboardInterrupt:
        # A terminal tells everybody; but who was being born, or in a life that is fuzzed by it, missed it.
        while wait(doing, TIDYING_S).not_done:
            for child in multiprocessing.active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)
        return True
    return False


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _counted(work: Work, command: str, options: Options) -> _Counted:
    tally, broke = Tally(command, options.seed), None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    take_others_as_ctrl_c()
    try:
        _interrupted(work, options, tally)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # it goes to who waits, with what was counted
        broke = error
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return tally.account(), broke


def _interrupted(work: Work, options: Options, tally: Tally) -> bool:
    """Do it; whether a Ctrl-C ended it, which trio may tell in a group."""
    interrupted = False
    try:
        work(options, tally)
    except* KeyboardInterrupt:
        interrupted = True
    return interrupted
