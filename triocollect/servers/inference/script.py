r"""What the scripted model says next. Pure: the same conversation always gets the same words.

It knows three kinds of task, and gets about four of five right:

- "What is 3 + 4 * 5?" is answered, the number in a `\boxed{}`;
- "Add 3, then 4, then subtract 2, then report the value." is played with the tools `increment`, `decrement`
  and `get_value`, one call a turn: how many results came back is how many steps are done;
- "Repeat exactly: ..." is repeated.
"""

import re
from typing import Final, NamedTuple

import msgspec

from triocollect.servers.inference.conversation import Conversation


class Answer(NamedTuple):
    """A message that ends the turn."""

    text: str


class ToolCall(NamedTuple):
    """One call of one tool; `arguments` is JSON."""

    name: str
    arguments: str


class _Amount(msgspec.Struct, frozen=True):
    amount: int


RIGHT_OF_TEN: Final = 8
AT_A_LOSS: Final = Answer("I do not know what to do here.")

_REPEAT: Final = re.compile(r"Repeat exactly: (.*)", re.DOTALL)
_PLAN: Final = re.compile(r"\b((?:add|subtract)\b.*?)\breport the value", re.IGNORECASE | re.DOTALL)
_CHANGE: Final = re.compile(r"(?:\b(add|subtract)\s+)?\b(\d{1,7})\b", re.IGNORECASE)
_SUM: Final = re.compile(r"\d{1,15}(?:\s*[-+*]\s*\d{1,15}){1,20}")  # bounded: the number must stay printable
_TOOL_OF: Final = {"add": "increment", "subtract": "decrement"}
_INTEGER: Final = re.compile(r"-?\d+")


def decide(conversation: Conversation) -> Answer | ToolCall:
    """The model's next words, or its next tool call."""
    right = conversation.dice % 10 < RIGHT_OF_TEN
    if (repeat := _REPEAT.search(conversation.task)) is not None:
        return Answer(repeat[1] if right else repeat[1] + " and so on")
    if (steps := plan(conversation.task)) and conversation.tools.issuperset(step.name for step in steps):
        done = len(conversation.results)
        return steps[done] if done < len(steps) else _report(conversation.results[-1], right=right)
    if (question := _SUM.search(conversation.task)) is not None:
        value = calculate(question[0]) + (not right)
        return Answer(f"Products first, then from left to right: {question[0]} makes \\boxed{{{value}}}")
    return AT_A_LOSS


def plan(task: str) -> tuple[ToolCall, ...]:
    """The tool calls that a plan asks for, `get_value` last; none where the task is no plan.

    A number without a verb of its own takes that of the number before.
    """
    if (wanted := _PLAN.search(task)) is None:
        return ()
    steps, verb = [], "add"
    for change in _CHANGE.finditer(wanted[1]):
        verb = (change[1] or verb).lower()
        steps.append(ToolCall(_TOOL_OF[verb], msgspec.json.encode(_Amount(int(change[2]))).decode()))
    return (*steps, ToolCall("get_value", "{}"))


def calculate(question: str) -> int:
    """The value of whole numbers joined by +, - and *, the products first."""
    total, product, sign = 0, 0, 1
    for operator, number in re.findall(r"([-+*]?)\s*(\d+)", question):
        if operator == "*":
            product *= int(number)
        else:
            total, product, sign = total + sign * product, int(number), -1 if operator == "-" else 1
    return total + sign * product


def _report(result: str, *, right: bool) -> Answer:
    if (value := _INTEGER.search(result)) is None:
        return AT_A_LOSS
    return Answer(f"The value is {int(value[0]) + (not right)}.")
