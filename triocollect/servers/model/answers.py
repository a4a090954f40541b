"""What the answer to a policy call says of itself, and its row in the ledger. Pure.

Whatever a worker answers was delivered: what cannot be read there, or is null, is unknown and no fault.
"""

import msgspec

from triocollect.capture.rows import LedgerRow
from triocollect.protocol.inference import Tokens
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.calls import Answer, Call


class Usage(msgspec.Struct, frozen=True):
    """Lengths in tokens."""

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None


class Said(msgspec.Struct, frozen=True):
    """Of a Response object."""

    id: str | None = None
    usage: Usage | None = None


def said_in(body: bytes) -> Said | None:
    """None where it is no Response at all."""
    try:
        return msgspec.json.decode(body, type=Said)
    except NOT_JSON:
        return None


def row_of(call: Call, answer: Answer) -> LedgerRow:
    """What the ledger says of a call that was answered so."""
    said = said_in(answer.body) or Said()
    usage = said.usage or Usage()
    return LedgerRow(
        call_id=call.id,
        parent=call.parent,
        request_sha256=call.request_sha256,
        response_id=said.id,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        continued_at=msgspec.UNSET if answer.continued_at is None else answer.continued_at,
        continued_by=msgspec.UNSET if answer.continued_by is None else answer.continued_by,
    )
