"""What policy calls and tokens a run has cost, by the account of the scripted worker.

A result's conversation says how many calls it took to get there. What was spent on its rollout beyond that
was made again; what its last attempt did not have to spend was kept over a cut.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from triocollect.errors import DamageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.values import NOT_JSON
from triocollect.records.lines import Lines


class Spent(NamedTuple):
    """Policy calls, and the tokens that were generated for them."""

    calls: int = 0
    tokens: int = 0

    def plus(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(self.calls + other.calls, self.tokens + other.tokens)

    def minus(self, other: "Spent") -> "Spent":
        """What of this is not the other."""
        return Spent(self.calls - other.calls, self.tokens - other.tokens)


class Conversation(msgspec.Struct, frozen=True):
    """The `response` of a result, as far as it tells what it cost."""

    output: tuple["_Item", ...] = ()
    usage: "_Usage | None" = None

    @property
    def spent(self) -> Spent:
        """What it took if nothing was done twice: the model spoke once between two turns of its tools."""
        turns = groupby(item.type == "function_call_output" for item in self.output)
        calls = sum(1 for of_tools, _ in turns if not of_tools)
        return Spent(calls, 0 if self.usage is None else self.usage.output_tokens)


def read_calls(path: Path) -> Mapping[EpisodeId, Spent] | None:
    """What each episode has spent; None where nobody wrote it down. Raises DamageError, StorageError."""
    if not path.exists():
        return None
    spent: dict[EpisodeId, Spent] = defaultdict(Spent)
    for line in Lines(path):
        try:
            ended = _decode(b"" if line.data is None else line.data)
            if ended.capture_key is not None:
                episode = EpisodeId.parse(ended.capture_key)
                spent[episode] = spent[episode].plus(Spent(1, ended.output_tokens))
        except (ValueError, *NOT_JSON) as error:
            raise DamageError(
                f"{path}, line {line.number} (byte {line.offset}): no ended call: {error}"
            ) from error
    return spent


def of_rollouts(spent: Mapping[EpisodeId, Spent], rollouts: Sequence[str]) -> Mapping[str, Spent]:
    """What all attempts of these rollouts have spent."""
    found = dict.fromkeys(rollouts, Spent())
    for episode, one in spent.items():
        if episode.rollout_id in found:
            found[episode.rollout_id] = found[episode.rollout_id].plus(one)
    return found


class _EndedCall(msgspec.Struct, frozen=True):
    capture_key: str | None
    output_tokens: int


class _Item(msgspec.Struct, frozen=True):
    type: str = "message"


class _Usage(msgspec.Struct, frozen=True):
    output_tokens: int = 0


_decode: Final = msgspec.json.Decoder(_EndedCall).decode
