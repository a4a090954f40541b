"""What holds for every run, by number; a check that fails says which, and each planted flaw does too.

Some promises have no number, but a name: what is seen of them is not told as another thing than it is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NoReturn, TypeAlias

INVARIANTS: Final = {
    1: "a row that has a result is not played again; one result each, and at a complete end exactly one",
    2: "attempts of a rollout rise, and none is sent twice unless nothing ran",
    3: "LATEST is absent or names something whole, never goes back, and stays as it is without a publish",
    4: "after a prune: two checkpoints at most, no leavings of ours, foreign files untouched",
    5: "while a checkpoint is open no row starts and nothing is retired; afterwards the gate is open",
    6: "continued = in the scope, exported by an environment, and still in flight or restored",
    7: "no later attempt is sent before the unanswered one is retired; a row that replied never is",
    8: "with no operation open everyone is open, otherwise within the lease",
    9: "two commits of one operation write the same; nothing of it appears after its resume",
    10: "every kept checkpoint restores; a failed restore leaves nothing, and its attempts refused",
    11: "no response twice; no call again that the boundary contains; no more calls than that costs",
    12: "no effect recorded before a cut happens again in its continuation, and none is missing",
    13: "a continued rollout ends as one that nobody interrupted; its records are of one instant",
    14: "TERM ends the run within its grace, from every state; no directory, no checkpoint parts",
    15: "a death at any file operation leaves what a rerun continues; finished + failed + left adds up",
    16: "nothing of a finished and forgotten row is kept anywhere",
}
NAMED: Final = {
    "security": "without the token nothing is obeyed or told; no path of a peer leads out of the directory",
    "protocol": "every answer is one of the protocol, and a refusal changes nothing",
    "words": "what goes wrong is told in words of ours: which file, line or server; nothing breaks of it",
    "reading": "whole lines and files count for what they say, and anything else for damaged",
}
Which: TypeAlias = int | Literal["security", "protocol", "words", "reading"]


class BrokenError(AssertionError):
    """An invariant does not hold, or a promise that has a name, and `others` do not either."""

    def __init__(self, number: Which, what: str, others: Sequence["BrokenError"] = ()) -> None:
        if isinstance(number, int):
            said = f"invariant {number} is broken: {what}\n({INVARIANTS[number]})"
        else:
            said = f"the promise of {number} is broken: {what}\n({NAMED[number]})"
        super().__init__("\n".join([said, *map(str, others)]))
        self.number: Final = number
        self.what: Final = what


def said(number: int, what: str) -> str:
    """What was seen, for whoever collects it instead of raising."""
    return f"{what} (invariant {number} is broken)"


def broken(number: Which, what: str) -> NoReturn:
    """Say that an invariant or a named promise does not hold, and what was seen. Raises BrokenError."""
    raise BrokenError(number, what)


def holds(number: Which, condition: object, what: str) -> None:
    """Raises BrokenError where the condition is false. `what`: what was seen then."""
    if not condition:
        broken(number, what)


def all_hold(numbers: Iterable[int], condition: object, what: str) -> None:
    """What breaks more than one invariant at once. Raises BrokenError, which tells of all."""
    raise_all([] if condition else [BrokenError(number, what) for number in numbers])


def raise_all(faults: Sequence[BrokenError]) -> None:
    """Raise the first, which then tells of all; nothing where there is none. Raises BrokenError."""
    if faults:
        raise BrokenError(faults[0].number, faults[0].what, faults[1:])


def ask_all(questions: Iterable[Callable[[], None]]) -> None:
    """Ask each, also where one before has shown something. Raises BrokenError, which tells of all."""
    faults = []
    for question in questions:
        try:
            question()
        except BrokenError as fault:
            faults.append(fault)
    raise_all(faults)
