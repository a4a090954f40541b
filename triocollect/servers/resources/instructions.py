"""Verifier: the rollout's last words keep to every instruction of the row. Stateless, pure."""

from typing import Literal

import msgspec
from msgspec import Raw

from triocollect.servers.resources.constraints import KINDS, Constraint
from triocollect.servers.resources.source import Verdict


class Expected(msgspec.Struct, frozen=True):
    """Fields of the row, as Gym 0.7.0's `instruction_following` has them.

    `kwargs` are the arguments of `instruction_id_list`, one object (or null) each. `grading_mode`: all or
    nothing, or the share of the instructions that are kept.
    """

    instruction_id_list: tuple[str, ...]
    kwargs: tuple[Raw, ...]
    grading_mode: Literal["binary", "fraction"] = "binary"


def verify(answer: str, expected: Expected) -> Verdict:
    """An empty answer keeps to nothing. Raises msgspec.ValidationError for instructions that are none."""
    kept = [bool(answer.strip()) and one.holds(answer) for one in _constraints(expected)]
    share = sum(kept) / len(kept)
    return Verdict(
        share if expected.grading_mode == "fraction" else float(all(kept)),
        {"follow_all_instructions": all(kept), "follow_instruction_list": [*kept]},
    )


def _constraints(expected: Expected) -> list[Constraint]:
    names, arguments = expected.instruction_id_list, expected.kwargs
    if not names or len(names) != len(arguments):
        raise msgspec.ValidationError(
            f"`kwargs` has {len(arguments)} entries for the {len(names)} of `instruction_id_list`"
        )
    return [_constraint(name, given) for name, given in zip(names, arguments, strict=True)]


def _constraint(name: str, given: Raw) -> Constraint:
    if (kind := KINDS.get(name)) is None:
        raise msgspec.ValidationError(
            f"`instruction_id_list`: no {name!r} is known; known: {', '.join(KINDS)}"
        )
    text = bytes(given).strip()
    try:
        return msgspec.json.decode(b"{}" if text == b"null" else text, type=kind)
    except msgspec.ValidationError as fault:
        raise msgspec.ValidationError(f"`kwargs` of {name!r}: {fault}") from None
