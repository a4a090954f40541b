"""What earlier runs left in the failures sidecar, by row."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import NOT_JSON
from triocollect.records.findings import Findings
from triocollect.records.heads import SidecarHead, decode_sidecar_head, head_of
from triocollect.records.lines import Lines

GIVEN_UP: Final = "agent_request_failed"  # no reply, or a gateway's: the environment said nothing

# Gym 0.7.0, retry_terminal_timeouts: these are then never terminal, and a skipped row always is.
_RETRIED_CLASSES: Final = frozenset(
    {"timeout_exceeded", "reference_missing", "eval_missing", "transport_ineligible"}
)


class FailedRow(msgspec.Struct):
    """What the sidecar knows of one row."""

    lines: int = 0  # earlier failures: Gym's retry budget counts these
    attempt: int = 0  # the highest
    replied: int | None = None  # the highest that an environment answered; what was given up is not
    terminal: bool = False
    failure_class: str = ""  # the last one
    elapsed_s: float | None = None
    reuse_cached_deliverable: Raw | None = None


class SidecarScan:
    """`tried` rows, and what does not count."""

    def __init__(self, path: Path) -> None:
        self.tried: Final[dict[RowKey, FailedRow]] = {}
        self.damaged: Final = Findings(path)


def scan_sidecar(path: Path, *, retry_terminal_timeouts: bool = False) -> SidecarScan:
    """Read the whole lines of a failures sidecar. Raises StorageError where it cannot be read."""
    scan = SidecarScan(path)
    for line in Lines(path):
        head = head_of(line, decode_sidecar_head, scan.damaged)
        if head is None:
            continue
        tried = scan.tried.setdefault(head.key, FailedRow())
        tried.lines += 1
        tried.attempt = max(tried.attempt, head.attempt)
        tried.failure_class = head.failure_class
        if head.failure_class != GIVEN_UP:
            tried.replied = max(tried.replied or 0, head.attempt)
        tried.terminal = tried.terminal or _is_terminal(head, retry_terminal_timeouts)
        tried.elapsed_s = _elapsed_s(head) or tried.elapsed_s
        if head.reuse_cached_deliverable is not UNSET:
            tried.reuse_cached_deliverable = head.reuse_cached_deliverable.copy()
    return scan


def _is_terminal(head: SidecarHead, retry_terminal_timeouts: bool) -> bool:  # noqa: FBT001  # a setting
    if retry_terminal_timeouts:
        if head.failure_class in _RETRIED_CLASSES:
            return False
        if head.failure_class == "skipped":
            return True
    return head.terminal is not UNSET and bytes(head.terminal) not in {b"false", b"null", b"0", b'""'}


class _Metadata(msgspec.Struct):
    elapsed_seconds: float


class _Response(msgspec.Struct):
    metadata: _Metadata


def _elapsed_s(head: SidecarHead) -> float | None:
    """`elapsed_seconds` at the top or in `response.metadata`, where it is a number."""
    try:
        if head.elapsed_seconds is not UNSET:
            return msgspec.json.decode(head.elapsed_seconds, type=float)
        if head.response is not UNSET:
            return msgspec.json.decode(head.response, type=_Response).metadata.elapsed_seconds
    except NOT_JSON:
        pass
    return None
