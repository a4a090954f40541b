"""A life in a process of its own, which may be killed: a fork of this one, so nothing is imported again."""

import contextlib
import os
import signal
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Literal

from fuzz.disk.calls import Watcher
from fuzz.disk.demands import Facts
from fuzz.disk.lives import also_acknowledged, live
from fuzz.disk.storage import ACKNOWLEDGED, Fact
from fuzz.simulation.world import World
from triocollect.errors import TriocollectError

PATIENCE_S: Final = 60.0  # simulated time waits for nobody: what takes that long hangs, on any machine
LEDGER: Final = "ledger"  # beside the story's folder: facts, a line each
FAULT: Final = "fault"  # likewise: why a life broke
End = Literal["ended", "killed", "broke", "hung"]


def lived(
    world: World,
    watcher: Watcher,
    *,
    forgiven: Collection[int] = (),
    sync: Callable[[int], None] | None = None,
) -> End:
    """Live the world's story in a child, with its facts in the ledger; how it ended.

    One that says in a message why it does not go on has ended: the message is a fact, "told".
    """

    def life() -> None:
        try:
            report = live(world, watcher, fact, forgiven=forgiven, sync=sync)
        except TriocollectError as error:
            told = " ".join(str(error).split())
            fact("told", f"{error.exit_code} {told}")
        else:
            if report is not None:
                fact("exit", str(report.exit_code))

    def fact(what: str, of: str) -> None:
        note(world, what, of)
        if what == "published":
            for key in also_acknowledged(of, lambda name: (world.folder / name).read_bytes()):
                note(world, "acknowledged", key)

    return _in_a_child(life, world.root / FAULT)


def note(world: World, what: str, of: str) -> None:
    """Write down a fact where it outlives this process."""
    with (world.root / LEDGER).open("a") as ledger:
        ledger.write(f"{what} {of}\n")


def _in_a_child(work: Callable[[], None], fault: Path) -> End:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  # nobody else is there to tell it
            fault.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    status = _ended(child)
    if status is None:
        return "hung"
    if os.WIFSIGNALED(status):
        return "killed"
    return "ended" if os.WEXITSTATUS(status) == 0 else "broke"


def _ended(child: int) -> int | None:
    """How, as `waitpid` has it; None where it is killed for that it hangs. A Ctrl-C kills it, too."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
            time.sleep(0.002)
    except KeyboardInterrupt:
        _kill(child)
        raise
    _kill(child)
    return None


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it was waited for right then
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def facts_of(world: World) -> list[Fact]:
    """All that was told in its lives so far; what was acknowledged comes last."""
    told = []
    for line in _lines(world.root / LEDGER):
        what, _, of = line.partition(" ")
        told.append(Fact(what, of))
    acknowledged = [Fact("acknowledged", key) for key in _lines(world.folder / ACKNOWLEDGED)]
    return told + acknowledged


def sum_of(facts: list[Fact]) -> Facts:
    """What holds after them."""
    whole = Facts()
    for fact in facts:
        whole.take(fact)
    return whole


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def why(world: World) -> str:
    """What broke a life, if one broke: the error, and where in the package it came from."""
    lines = _lines(world.root / FAULT)
    places = [line.strip() for line in lines if "/triocollect/" in line]
    said = [line for line in lines if "is broken" in line][-1:] or lines[-1:]
    return " < ".join([*said, *reversed(places[-3:])])
