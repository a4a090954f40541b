"""What the scripted model can do next."""

from typing import Final, NamedTuple, TypeAlias


class Answer(NamedTuple):
    """A message that ends the turn."""

    text: str


class ToolCall(NamedTuple):
    """One call of one tool; `arguments` is JSON."""

    name: str
    arguments: str


Move: TypeAlias = Answer | ToolCall

AT_A_LOSS: Final = Answer("I do not know what to do here.")
