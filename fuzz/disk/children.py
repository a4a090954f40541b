"""A life in a process of its own, which may be killed: a fork of this one, so nothing is imported again."""

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from fuzz.disk.calls import Watcher
from fuzz.disk.demands import Facts
from fuzz.disk.lives import live
from fuzz.disk.storage import ACKNOWLEDGED, Fact
from fuzz.simulation.world import World

PATIENCE_S: Final = 60.0  # simulated time waits for nobody: what takes that long hangs, on any machine
LEDGER: Final = "ledger"  # beside the story's folder: facts, a line each
FAULT: Final = "fault"  # likewise: why a life broke
End = Literal["ended", "killed", "broke", "hung"]


def lived(world: World, watcher: Watcher) -> End:
    """Live the world's story in a child, with its facts in the ledger; how it ended."""

    def life() -> None:
        ledger = os.open(world.root / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def fact(what: str, of: str) -> None:
            os.write(ledger, f"{what} {of}\n".encode())

        report = live(world, watcher, fact)
        if report is not None:
            fact("exit", str(report.exit_code))

    return _in_a_child(life, world.root / FAULT)


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
    deadline = time.monotonic() + PATIENCE_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hung"
        time.sleep(0.002)
    if os.WIFSIGNALED(status):
        return "killed"
    return "ended" if os.WEXITSTATUS(status) == 0 else "broke"


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
    """What broke a life, if one broke."""
    return "\n".join(_lines(world.root / FAULT))
