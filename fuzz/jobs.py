"""Several processes at one command, each with dice of its own; the first adds up what they counted."""

import contextlib
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeAlias

from attrs import evolve

from fuzz.commands import Options, again
from fuzz.tally import Account, Tally

Work: TypeAlias = Callable[[Options, Tally], None]
_APART = 7919  # between the seeds of two processes


def share(work: Work, options: Options, tally: Tally, *, apart: bool = False) -> None:
    """Have `work`, a function of a module, done by `options.jobs` processes; the first has the seed given.

    `apart`: by another one also where one is enough, as what this process was started with does not fit.
    """
    jobs = 1 if options.replay is not None else options.jobs
    if jobs <= 1 and not apart:
        work(options, tally)
        return
    shares = [evolve(options, seed=options.seed + nth * _APART, jobs=1) for nth in range(jobs)]
    with contextlib.ExitStack() as pools:  # one each: a process that dies takes no other with it
        doing = []
        for one in shares:
            pool = pools.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
            doing.append((one, pool.submit(_counted, work, tally.command, one)))
        for one, done in doing:
            try:
                tally.take_in(done.result())
            except BrokenProcessPool:
                tally.violation("a process died of what it met", again(tally.command, one))


def _counted(work: Work, command: str, options: Options) -> Account:
    tally = Tally(command, options.seed)
    work(options, tally)
    return tally.account()
