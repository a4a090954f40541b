r"""What stands in the last `\boxed{...}` of an answer. Pure."""

from typing import Final

_BOX: Final = r"\boxed{"


def boxed(text: str) -> str | None:
    """The inside of the last box, up to its own closing brace; None where there is no box."""
    _, box, inside = text.rpartition(_BOX)
    if not box:
        return None
    depth = 1
    for place, letter in enumerate(inside):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return inside[:place]
    return inside
