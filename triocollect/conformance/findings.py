"""What came of an examination, for people and for programs. Pure."""

import textwrap
from collections.abc import Iterator
from typing import Final

import msgspec

from triocollect.conformance.promises import Finding
from triocollect.protocol.messages import Kind, Mode

_WIDTH: Final = 110
_INDENT: Final = " " * 11


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One participant. `seed`, `walks` and `calls` of those in any order; `left`: what nobody removed.

    `can_cut`: what it says of itself.
    """

    url: str
    kind: Kind
    instance: str
    mode: Mode
    findings: tuple[Finding, ...]
    seed: int = 0
    walks: int = 0
    calls: int = 0
    left: str = ""
    can_cut: bool = False

    @property
    def broken(self) -> tuple[int, ...]:
        """The numbers of the broken promises."""
        return tuple(one.number for one in self.findings if one.verdict == "BROKEN")

    @property
    def kept(self) -> bool:
        """Whether no promise is broken."""
        return not self.broken

    def text(self) -> str:
        """The whole of it for people."""
        return "\n".join([*map(told, self.findings), self.sum()])

    def sum(self) -> str:
        """The last lines of it."""
        counts = ", ".join(f"{sum(one.verdict == word for one in self.findings)} {word}" for word in _WORDS)
        if self.broken:
            counts += f"; broken: {', '.join(map(str, self.broken))}"
        walked = f"; {self.calls} calls in any order, seed {self.seed}" if self.calls else ""
        lines = [f"{self.kind} {self.instance}: {counts}{walked}"]
        if self.mode == "restart_only":
            lines.append(
                "its mode is restart_only: a checkpoint has nothing of it, what it served is played anew"
            )
        elif self.kind == "model":
            lines.append(
                "it says that it cuts: calls in generation go on where a checkpoint found them"
                if self.can_cut
                else "it does not cut: calls that a checkpoint finds in generation are generated again"
            )
        return "\n".join([*lines, *filter(None, (self.left,))])


_WORDS: Final = ("kept", "BROKEN", "untried")


def told(finding: Finding) -> str:
    """One finding for people."""
    return "\n".join(_lines(finding))


def _lines(one: Finding) -> Iterator[str]:
    yield from _wrapped(f"{one.verdict:<7} {one.number:>2}", one.says)
    if one.why:
        yield from _wrapped("", f"not tried: {one.why}")
    if one.verdict == "BROKEN":
        for name, text in (("asked", one.asked), ("answered", one.answered), ("expected", one.expected)):
            yield from _wrapped("", f"{name + ':':<9} {text}")
        yield from _wrapped("", f"look at:  {one.look}")


def _wrapped(head: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, _WIDTH - len(_INDENT), break_on_hyphens=False) or [""]
    return [f"{head:<{len(_INDENT)}}{lines[0]}".rstrip(), *(_INDENT + line for line in lines[1:])]
