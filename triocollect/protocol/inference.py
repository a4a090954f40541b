"""Between a model server and an inference worker that cuts by itself, and what is staged. Pure.

At a checkpoint the model server asks `POST <worker>/cuts` with an `Inventory` of the calls that it has
there, each by the `x-call-id` that it was sent with. The worker freezes each at a token boundary, stages the
prefixes durably, and answers one `Receipt`, in which each call of the inventory is once. With the same
inventory `POST <worker>/cuts/thaw` lets them go on where they stand. A freeze also ends when its time is
over, and with the connection of its call.

A call that goes on from a cut names it by `x-continue-cut`. Who can continue it generates the rest only, and
says by `x-continued-at` how many tokens it did not generate; else the call is generated from its start.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from triocollect.protocol.messages import MOST_COUNTED

CUTS: Final = "/cuts"
THAW: Final = "/cuts/thaw"
CONTINUE_CUT: Final = "x-continue-cut"
CONTINUED_AT: Final = "x-continued-at"

Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_COUNTED)]
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_COUNTED)]  # how many

_KEY: Final = re.compile(r"([0-9a-f]{64}):(0|[1-9][0-9]{0,8})")


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a model server has at a worker; they stay frozen for `frozen_ms` at most.

    `freeze` names the freeze: the order to thaw may overtake it, and it must freeze nobody then.
    """

    freeze: str
    calls: tuple[str, ...]
    frozen_ms: Milliseconds = 60_000


class Cut(msgspec.Struct, frozen=True, tag_field="outcome", tag="cut"):
    """The first `tokens` tokens of this call are staged under `key`."""

    call_id: str
    key: str
    tokens: int


class Finished(msgspec.Struct, frozen=True, tag_field="outcome", tag="finished"):
    """Nothing is left to cut: the answer to this call is on its way."""

    call_id: str


class NotCut(msgspec.Struct, frozen=True, tag_field="outcome", tag="not_cut"):
    """This call is generated again, and why."""

    call_id: str
    why: str


Outcome: TypeAlias = Cut | Finished | NotCut


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each call of an inventory."""

    calls: tuple[Outcome, ...]


class StagedCut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was generated of a call: text, tokens and log-probabilities end at the same token.

    `request`: digest of what was asked, as whoever staged it makes one and will compare it. `policy`: the
    version of the policy that all of it was sampled from. `token_ids` and `logprobs`: of each token, or none
    where the worker tells none. `response`: the whole Response object where the call was over and its answer
    not yet delivered; then there is nothing to generate. `own`: whatever else its maker needs to go on.
    """

    call_id: str
    request: str
    policy: str
    tokens: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    response: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    own: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def fault(self) -> str | None:
        """Why this cannot be continued by anybody, in words; None where its parts agree."""
        if self.tokens < 0 or (self.tokens == 0 and self.response is msgspec.UNSET):
            return f"it has {self.tokens} tokens"
        for name, listed in (("token ids", self.token_ids), ("log-probabilities", self.logprobs)):
            if listed and len(listed) != self.tokens:
                return f"it has {len(listed)} {name} for {self.tokens} tokens"
        return None


def key_of(pack: str, line: int) -> str:
    """The staging key of one cut: the pack's hex sha256, and which of its lines, from 0."""
    return f"{pack}:{line}"


def parts_of(key: str) -> tuple[str, int]:
    """The inverse of `key_of`. Raises ValueError for what is no key."""
    if (found := _KEY.fullmatch(key)) is None:
        raise ValueError(f"{key[:100]!r} is no staging key")
    return found[1], int(found[2])


def accounted(inventory: Iterable[str], receipt: Receipt) -> Mapping[str, Outcome]:
    """One outcome for each call of the inventory, whatever a receipt says.

    A call that is not in it, or more than once, is not cut; one that nobody asked about is left out.
    """
    named = Counter(one.call_id for one in receipt.calls)
    told = {one.call_id: one for one in receipt.calls}
    return {call: _once(call, named[call], told.get(call)) for call in inventory}


def _once(call_id: str, times: int, outcome: Outcome | None) -> Outcome:
    if outcome is None:
        return NotCut(call_id, "the receipt leaves it out")
    return outcome if times == 1 else NotCut(call_id, f"the receipt has it {times} times")
