"""Names that make identifiers: the same rollout has the same trace in every allocation. Pure.

Nothing has to be kept over a preemption: whoever knows a run, a rollout and an attempt knows its span.
"""

from hashlib import blake2b

from triocollect.protocol.ids import EpisodeId

_TRACE_BYTES = 16
_SPAN_BYTES = 8


def run_trace(run: str) -> int:
    """The trace of a run's own work: its starts, checkpoints, restores and retires."""
    return _number(_TRACE_BYTES, "run", run)


def rollout_trace(run: str, rollout_id: str) -> int:
    """The trace of a rollout: its rows, attempts and what servers do for them."""
    return _number(_TRACE_BYTES, "rollout", run, rollout_id)


def attempt_span(run: str, episode: EpisodeId) -> int:
    """The span of one attempt."""
    return _number(_SPAN_BYTES, "attempt", run, episode.capture_key)


def row_span(run: str, first: EpisodeId) -> int:
    """The span of a row in one allocation, from the first attempt that it makes there."""
    return _number(_SPAN_BYTES, "row", run, first.capture_key)


def traceparent(trace: int, span: int, *, sampled: bool) -> str:
    """W3C Trace Context, level 1."""
    return f"00-{trace:032x}-{span:016x}-0{sampled:d}"


def _number(size: int, *names: str) -> int:
    """Above zero, which is no identifier. Names hold no line break."""
    return int.from_bytes(blake2b("\n".join(names).encode(), digest_size=size).digest()) or 1
