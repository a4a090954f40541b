r"""What the scripted model says next. Pure: the same conversation always gets the same words.

It knows some kinds of task, and gets about four of five right:

- "What is 3 + 4 * 5?" is answered, the number in a `\boxed{}`, or the letter of the option that has it;
- "Add 3, then 4, then subtract 2, then report the value." is played with the tools `increment`, `decrement`
  and `get_value`, one call a turn: how many results came back is how many steps are done;
- "Call throw 8 times, then say what it said." is done with whatever tool of the row has that name;
- "Play 3 hands of blackjack. Hit below 16 ..." is played by what the cards show (`playing.py`);
- "Add 5 to amber, strike out crane, ..., then say how many there are in all." is a statement a turn;
- "Repeat exactly: ..." is repeated;
- "Write about ..." and "... fits this schema: {...}" is written as it is asked for (`writing.py`).
"""

import re
from typing import Final

import msgspec

from triocollect.servers.inference import playing, writing
from triocollect.servers.inference.conversation import Conversation
from triocollect.servers.inference.moves import AT_A_LOSS, Answer, Move, ToolCall
from triocollect.servers.inference.reckoning import SUM, calculate


class _Amount(msgspec.Struct, frozen=True):
    amount: int


RIGHT_OF_TEN: Final = 8

_REPEAT: Final = re.compile(r"Repeat exactly: (.*)", re.DOTALL)
_CALLS: Final = re.compile(r"\bCall (\w+) (\d{1,3}) times\b")
_PLAN: Final = re.compile(r"\b((?:add|subtract)\b.*?)\breport the value", re.IGNORECASE | re.DOTALL)
_CHANGE: Final = re.compile(r"(?:\b(add|subtract)\s+)?\b(\d{1,7})\b", re.IGNORECASE)
_TOOL_OF: Final = {"add": "increment", "subtract": "decrement"}
_INTEGER: Final = re.compile(r"-?\d{1,300}")  # Python reads no number of thousands of digits


def decide(conversation: Conversation) -> Move:
    """The model's next words, or its next tool call."""
    task, right = conversation.task, conversation.dice % 10 < RIGHT_OF_TEN
    if (repeat := _REPEAT.search(task)) is not None:
        return Answer(repeat[1] if right else repeat[1] + " and so on")
    return (
        writing.write(task, right=right)
        or writing.fill_in(task, right=right)
        or writing.choose(task, conversation.dice, right=right)
        or _with_tools(conversation, right=right)
        or _in_numbers(task, right=right)
        or AT_A_LOSS
    )


def _with_tools(conversation: Conversation, *, right: bool) -> Move | None:
    task, results, tools = conversation.task, conversation.results, conversation.tools
    if (steps := plan(task)) and tools.issuperset(step.name for step in steps):
        done = len(results)
        return steps[done] if done < len(steps) else _report(results[-1], right=right)
    if (asked := _CALLS.search(task)) is not None and asked[1] in tools:
        more = len(results) < int(asked[2])
        return ToolCall(asked[1], "{}") if more else Answer(results[-1] if results else "Nothing.")
    if tools >= playing.BLACKJACK_TOOLS:
        return playing.play_blackjack(task, results, right=right)
    if playing.QUERY in tools:
        return playing.query_database(task, results, conversation.dice, right=right)
    return None


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


def _report(result: str, *, right: bool) -> Answer:
    if (value := _INTEGER.search(result)) is None:
        return AT_A_LOSS
    return Answer(f"The value is {int(value[0]) + (not right)}.")


def _in_numbers(task: str, *, right: bool) -> Answer | None:
    if (question := SUM.search(task)) is None:
        return None
    value = calculate(question[0]) + (not right)
    return Answer(f"Products first, then from left to right: {question[0]} makes \\boxed{{{value}}}")
