"""Names that make identifiers: the same rollout has the same trace in every allocation. Pure.

Nothing has to be kept over a preemption: whoever knows a run, a rollout and an attempt knows its span. Spans
are told apart within their trace, so their numbers count from the two halves of its own.
"""

from hashlib import blake2b
from typing import Final

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
_MOST: Final = (1 << 8 * SPAN_BYTES) - 1


def run_trace(run: str) -> bytes:
    """The trace of a run's own work: its starts, checkpoints, restores and retires."""
    return blake2b(f"run\n{run}".encode(), digest_size=TRACE_BYTES).digest()


def rollout_trace(run: str, rollout_id: str) -> bytes:
    """The trace of a rollout: its rows, attempts and what servers do for them."""
    return blake2b(f"rollout\n{run}\n{rollout_id}".encode(), digest_size=TRACE_BYTES).digest()


def attempt_span(trace: bytes, attempt: int) -> bytes:
    """The span of one attempt in its rollout's trace."""
    return _further(trace[SPAN_BYTES:], attempt)


def row_span(trace: bytes, first: int) -> bytes:
    """The span of a row in one allocation, which is known by the first attempt that it makes there."""
    return _further(trace[:SPAN_BYTES], first)


def _further(half: bytes, by: int) -> bytes:
    """Never zero, which is no identifier."""
    return ((int.from_bytes(half) + by) % _MOST + 1).to_bytes(SPAN_BYTES)
