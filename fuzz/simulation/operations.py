"""8 and 9: what participants are asked in an operation, and what they do after its end; 5: its length."""

import math
import os
import re
from collections.abc import Callable, Mapping

import trio
from attrs import define, field

from fuzz.simulation.probe import Probe
from fuzz.simulation.request import Request
from fuzz.simulation.story import CHECKPOINT_S, Life

_FOLDER = re.compile(r"\bckpt-\d+")
_APPEARS = {"open", "mkdir", "replace", "rename"}
_SLACK_S = 30.0  # of a checkpoint that does not come about, for resumes and last questions
_BLOCKS = 16  # times, at most, in that
_OPENING = ("agent", "policy-model", "environment")  # one after the other, after all others


@define
class Operations:
    """Those of one life, by the hosts of participants."""

    _holds: Callable[[int, object, str], None]
    _asked_to_open: dict[str, int] = field(factory=dict)  # the last one, also where that was lost on its way
    _asked_to_close: dict[str, int] = field(factory=dict)
    _resumed: dict[str, int] = field(factory=dict)  # the last one that was answered
    _folders: dict[str, int] = field(factory=dict)
    _manifests: dict[tuple[object, ...], object] = field(factory=dict)  # by host, boot and operation
    _longest_s: float = math.inf  # that a checkpoint may take
    _opened: float = math.inf

    def begin(self, life: Life) -> None:
        """Another one, whose operations are counted anew."""
        self._longest_s = CHECKPOINT_S + _SLACK_S + _BLOCKS * life.slow_ms / 1000
        if life.leap is not None:
            self._longest_s = math.inf
        for memory in (
            self._asked_to_open,
            self._asked_to_close,
            self._resumed,
            self._folders,
            self._manifests,
        ):
            memory.clear()

    def asks(self, request: Request) -> None:
        """A control call is to set out, or would if somebody were there."""
        call = request.call
        if request.kind == "resume":
            _raise(self._asked_to_open, request.host, call["operation"])
            self._check_order(request.host, call["operation"])
        elif request.kind in {"prepare", "restore"}:
            _raise(self._asked_to_close, request.host, call["operation"])
        elif request.kind == "commit":
            self._folders[call["directory"]] = call["operation"]

    def _check_order(self, host: str, operation: int) -> None:
        closed = {one for one, number in self._asked_to_close.items() if number == operation}
        below = {one for one in closed if _turn(one) < _turn(host)}
        early = sorted(one for one in below if self._asked_to_open.get(one, 0) < operation)
        self._holds(8, not early, f"{host} is to open, and {early}, which it needs, were not asked")

    def answers(self, request: Request) -> None:
        """And was carried out."""
        operation = request.call.get("operation", 0)
        if request.kind == "resume":
            _raise(self._resumed, request.host, operation)
        elif request.kind == "commit":
            reply = request.answer
            late = operation <= self._resumed.get(request.host, 0)
            self._holds(9, not late, f"{request.host} committed {operation} after its resume")
            name = request.host, reply["boot"], operation
            same = self._manifests.setdefault(name, reply["manifest"]) == reply["manifest"]
            self._holds(9, same, f"{request.host} committed {operation} twice, as {reply['manifest']}")

    def changes(self, owner: str, operation: str, what: object) -> None:
        """A file or a folder, by a process of that name."""
        if not self._resumed or operation not in _APPEARS or isinstance(what, int):
            return
        folder = _FOLDER.search(os.fspath(what))
        number = None if folder is None else self._folders.get(folder[0])
        over = number is not None and number <= self._resumed.get(_host_of(owner), 0)
        self._holds(9, not over, f"{owner} writes {what} after the resume of operation {number}")

    def opens(self) -> None:
        """A checkpoint."""
        self._opened = trio.current_time()

    def over(self, operation: int, participants: Mapping[str, Probe]) -> None:
        """In time, and the run goes on: whoever is closed, and no lease is over, was asked to open."""
        lasted = trio.current_time() - self._opened
        self._holds(
            5, lasted <= self._longest_s, f"checkpoint {operation} kept the gate closed for {lasted:.0f} s"
        )
        for name, probe in participants.items():
            asked = self._asked_to_open.get(_host_of(name), 0) >= operation
            told = f"{name} is closed after checkpoint {operation}, and nobody asked it to open"
            self._holds(8, asked or not probe.is_held, told)

    def row_begins(self, participants: Mapping[str, Probe]) -> None:
        """Whoever is closed, for a restore or a checkpoint, was asked to open since."""
        for name, probe in participants.items():
            host = _host_of(name)
            owed = self._asked_to_close.get(host, 0) > self._asked_to_open.get(host, 0)
            told = f"a row is sent, and {name} is closed, and nobody asked it to open"
            self._holds(8, not (owed and probe.is_held), told)


def _raise(highest: dict[str, int], host: str, operation: int) -> None:
    highest[host] = max(operation, highest.get(host, 0))


def _turn(host: str) -> int:
    return _OPENING.index(host) if host in _OPENING else -1


def _host_of(name: str) -> str:
    return name.replace("_", "-")
