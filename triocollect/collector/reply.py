"""From what came back to how the row's send ended. Pure."""

import email.utils
import time
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from triocollect.collector.body import BadBodyError, fields_of, number_of
from triocollect.collector.outcome import Failure, NoReply, NothingRan, Outcome, Refused, Success, Unpersisted
from triocollect.errors import NotSentError, ReplyRefusedError, TransportError
from triocollect.gym.episodes import unwrap_episode
from triocollect.gym.records import (
    AGENT_REQUEST_FAILED,
    AGENT_RUN_ERROR,
    failure_record,
    place,
    settle_class,
    stamp,
)
from triocollect.gym.routing import Target
from triocollect.protocol.ids import EpisodeId
from triocollect.records.fate import text_of
from triocollect.rows.types import Row
from triocollect.transport import Reply


class Sent(NamedTuple):
    """What was sent where."""

    row: Row
    episode: EpisodeId
    target: Target


_OK: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)
_CONFLICT: Final = 409
_GATEWAY: Final = frozenset({429, 502, 503, 504})  # something in front of the environment answered
_NOTHING_RAN: Final = frozenset({"checkpoint_open", "busy"})
_NEXT_ATTEMPT: Final = frozenset({"stale_attempt", "not_restored", "task_mismatch"})


class _Error(msgspec.Struct):
    code: str
    detail: str = ""


class _ErrorBody(msgspec.Struct):
    error: _Error


_decode_error: Final = msgspec.json.Decoder(_ErrorBody).decode


def judge(sent: Sent, reply: Reply) -> Outcome:
    """A whole reply: what it says of the episode, already stamped where it is to be written."""
    if reply.status in _OK:
        return _judge_body(sent, reply)
    known = _known_error(reply)
    if known is not None and known.code in _NOTHING_RAN:
        return NothingRan(known.code, known.detail or known.code, _retry_after_s(reply))
    if known is not None and known.code in _NEXT_ATTEMPT and reply.status == _CONFLICT:
        return Refused(known.code, known.detail or known.code)
    message = f"HTTP {reply.status} from {sent.target.url}/run"
    if reply.status in _GATEWAY or (known is not None and known.code == "duplicate_attempt"):
        return NoReply("status", message, reply.status, _retry_after_s(reply))
    if reply.status in _REDIRECT:
        location = (reply.header(b"location") or b"nowhere").decode("latin-1")
        message += f", which points to {location}: redirects are not followed"
    return failed(sent, kind="HTTPStatusError", message=message, reply=reply)


def judge_error(sent: Sent, error: TransportError) -> Outcome:
    """No whole reply, or one that breaks our limits."""
    if isinstance(error, NotSentError):
        return NothingRan(error.kind, str(error))
    if isinstance(error, ReplyRefusedError) and error.status is not None:
        reply = Reply(status=error.status, headers=(), body=b"")
        return failed(sent, kind=type(error).__name__, message=str(error), reply=reply)
    return NoReply(error.kind, str(error))


def failed(sent: Sent, *, kind: str, message: str, reply: Reply | None) -> Failure:
    """A failure record of our own making. `reply`: None where no server was asked."""
    fields = failure_record(
        kind=kind,
        message=message,
        status=None if reply is None else reply.status,
        body=b"" if reply is None or reply.status in _OK else reply.body,
        failure_class=AGENT_RUN_ERROR if reply is None else None,
    )
    stamp(fields, sent.row, sent.episode.attempt, sent.target)
    return _as_failure(fields, message)


def given_up(sent: Sent, outcome: NoReply | NothingRan | Refused) -> Failure:
    """The sidecar row of a row that got no reply and is not sent again by this run."""
    fields = failure_record(
        kind=outcome.kind,
        message=outcome.reason,
        status=outcome.status if isinstance(outcome, NoReply) else None,
        failure_class=AGENT_REQUEST_FAILED,
    )
    stamp(fields, sent.row, sent.episode.attempt, sent.target)
    return _as_failure(fields, outcome.reason)


def _judge_body(sent: Sent, reply: Reply) -> Outcome:
    try:
        received = fields_of(reply.body)
    except BadBodyError as error:
        return failed(sent, kind="BodyError", message=str(error), reply=reply)
    fields, _ = unwrap_episode(sent.row, received)
    stamp(fields, sent.row, sent.episode.attempt, sent.target)
    match place(fields):
        case "nothing":
            return Unpersisted()
        case "sidecar":
            return _as_failure(fields, text_of(fields.get("_ng_failure_message", fields.get("error"))))
        case "output":
            return Success(fields, number_of(fields.get("reward")))


def _as_failure(fields: dict[str, Raw], message: str) -> Failure:
    return Failure(fields, settle_class(fields), message)


def _known_error(reply: Reply) -> _Error | None:
    """The error body of a server that speaks our control plane's language."""
    try:
        return _decode_error(reply.body).error
    except msgspec.MsgspecError:
        return None


def _retry_after_s(reply: Reply) -> float | None:
    """`Retry-After` as seconds from now: a number or a date (RFC 9110, 10.2.3)."""
    value = (reply.header(b"retry-after") or b"").decode("latin-1").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
