"""8 and 9: what participants are asked in an operation, and what they do after its end."""

import os
import re
from collections.abc import Callable, Mapping

from attrs import define, field

from fuzz.simulation.network import Request
from fuzz.simulation.probe import Probe

_FOLDER = re.compile(r"\bckpt-\d+")
_APPEARS = {"open", "mkdir", "replace", "rename"}
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

    def begin(self) -> None:
        """Another life, whose operations are counted anew."""
        for memory in (
            self._asked_to_open,
            self._asked_to_close,
            self._resumed,
            self._folders,
            self._manifests,
        ):
            memory.clear()

    def asks(self, request: Request) -> None:
        """A control call sets out."""
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
        if isinstance(what, int) or operation not in _APPEARS:
            return
        folder = _FOLDER.search(os.fspath(what))
        number = None if folder is None else self._folders.get(folder[0])
        over = number is not None and number <= self._resumed.get(_host_of(owner), 0)
        self._holds(9, not over, f"{owner} writes {what} after the resume of operation {number}")

    def over(self, operation: int, participants: Mapping[str, Probe]) -> None:
        """The run goes on: whoever is closed, and no lease is over, was asked to open."""
        for name, probe in participants.items():
            asked = self._asked_to_open.get(_host_of(name), 0) >= operation
            told = f"{name} is closed after checkpoint {operation}, and nobody asked it to open"
            self._holds(8, asked or not probe.is_held, told)


def _raise(highest: dict[str, int], host: str, operation: int) -> None:
    highest[host] = max(operation, highest.get(host, 0))


def _turn(host: str) -> int:
    return _OPENING.index(host) if host in _OPENING else -1


def _host_of(name: str) -> str:
    return name.replace("_", "-")
