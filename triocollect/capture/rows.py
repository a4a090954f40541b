"""What the ledger says of one delivered policy call, and the line of calls that led to it. Pure."""

from collections.abc import Iterator, Mapping

import msgspec


class LedgerRow(msgspec.Struct, frozen=True):
    """One delivered call. Lengths are in tokens, None where the worker does not say.

    `parent` is the call that the caller knew last; None: it knew none. `continued_at`: how many of its tokens
    were generated before a checkpoint, `continued_by`: by which means the rest was generated after them;
    neither for a call that was generated in one piece.
    """

    call_id: str
    parent: str | None
    request_sha256: str
    response_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    continued_at: int | msgspec.UnsetType = msgspec.UNSET
    continued_by: str | msgspec.UnsetType = msgspec.UNSET


def line_to(rows: Mapping[str, LedgerRow], call_id: str | None) -> Iterator[str]:
    """A call and those that led to it, the last one first; nothing where it is not known.

    Ends where it would go in a circle: callers say the parents, and can say anything.
    """
    seen = set[str]()
    while call_id is not None and call_id not in seen and (row := rows.get(call_id)) is not None:
        yield call_id
        seen.add(call_id)
        call_id = row.parent
