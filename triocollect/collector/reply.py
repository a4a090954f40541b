"""From what came back to how the row's send ended. Pure."""

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from triocollect.collector.body import BadBodyError, fields_of
from triocollect.collector.outcome import (
    Closed,
    Failure,
    NoReply,
    NothingRan,
    Outcome,
    Overtaken,
    Refused,
    Success,
    Unpersisted,
)
from triocollect.errors import NotSentError, ReplyRefusedError, TransportError
from triocollect.gym.episodes import unwrap_episode
from triocollect.gym.records import (
    AGENT_REQUEST_FAILED,
    AGENT_RUN_ERROR,
    GATEWAY_STATUSES,
    failure_record,
    place,
    settle_class,
    stamp,
)
from triocollect.gym.routing import Target
from triocollect.protocol.ids import MOST_ATTEMPTS, EpisodeId
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of
from triocollect.records.causes import plain
from triocollect.records.fate import number_of, text_of
from triocollect.rows.types import Row
from triocollect.transport import Reply
from triocollect.transport.retry_after import retry_after_s


class SentRow(NamedTuple):
    """What was sent where."""

    row: Row
    episode: EpisodeId
    target: Target


_OK: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)
_LOOKED_AT: Final = 4096  # bytes of a page
_MOST_QUOTED: Final = 100  # characters of what it says

_decode_refusal: Final = msgspec.json.Decoder(RefusalBody).decode


def judge(sent: SentRow, reply: Reply) -> Outcome:
    """A whole reply: what it says of the episode, already stamped where it is to be written."""
    if reply.status in _OK:
        return _judge_body(sent, reply)
    refusal = _refusal(reply)
    if refusal is not None and (refused := _judge_refusal(refusal, reply)) is not None:
        return refused
    message = f"HTTP {reply.status} from {sent.target.url}/run"
    if reply.status in GATEWAY_STATUSES:
        return NoReply("status", message, reply.status, _retry_after_s(reply))
    if reply.status in _REDIRECT:
        location = (reply.header(b"location") or b"nowhere").decode("latin-1")
        message += f", which points to {location}: redirects are not followed"
    return failed(sent, kind="HTTPStatusError", message=message, reply=reply)


def judge_error(sent: SentRow, error: TransportError) -> Outcome:
    """No whole reply, or one that breaks our limits."""
    if isinstance(error, NotSentError):
        return NothingRan(error.kind, str(error))
    if (
        isinstance(error, ReplyRefusedError)
        and error.status is not None
        and error.status not in GATEWAY_STATUSES
    ):
        reply = Reply(status=error.status, headers=(), body=b"")
        return failed(sent, kind=type(error).__name__, message=str(error), reply=reply)
    return NoReply(error.kind, str(error))


def failed(sent: SentRow, *, kind: str, message: str, reply: Reply | None) -> Failure:
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


def given_up(sent: SentRow, outcome: NothingRan | NoReply | Refused) -> Failure:
    """The sidecar row of a row that got no reply and is not sent again by this run."""
    fields = failure_record(
        kind=outcome.kind,
        message=outcome.reason,
        status=outcome.status if isinstance(outcome, NoReply) else None,
        failure_class=AGENT_REQUEST_FAILED,
    )
    stamp(fields, sent.row, sent.episode.attempt, sent.target)
    return _as_failure(fields, outcome.reason)


def _judge_body(sent: SentRow, reply: Reply) -> Outcome:
    try:
        received = fields_of(reply.body)
    except BadBodyError as error:
        message = _told_of_a_page(sent, reply) or str(error)
        return failed(sent, kind="BodyError", message=message, reply=reply)
    fields, _ = unwrap_episode(sent.row, received)
    stamp(fields, sent.row, sent.episode.attempt, sent.target)
    match place(fields):
        case "nothing":
            return Unpersisted()
        case "sidecar":
            return _as_failure(fields, text_of(fields.get("_ng_failure_message", fields.get("error"))))
        case "output":
            return Success(fields, number_of(fields.get("reward")))


def _told_of_a_page(sent: SentRow, reply: Reply) -> str | None:
    """What is for a browser, a login page say, comes from whoever answers in the server's place."""
    said = (reply.header(b"content-type") or b"").decode("latin-1").partition(";")[0].strip().lower()
    if "html" not in said and reply.body.lstrip()[:1] != b"<":
        return None
    return (
        f"HTTP {reply.status} from {sent.target.url}/run brought a page ({said or 'without a content type'}) "
        "and no JSON: check that the URL is the environment server's, and that no proxy answers for it. "
        f"It begins: {plain(reply.body[:_LOOKED_AT].decode('utf-8', 'replace'))[:_MOST_QUOTED]}"
    )


def _as_failure(fields: dict[str, Raw], message: str) -> Failure:
    return Failure(fields, settle_class(fields), message)


def _judge_refusal(refusal: Refusal, reply: Reply) -> Outcome | None:
    """What a refusal in our control plane's language means for a row; None where it means nothing special."""
    reason = refusal.detail or refusal.code
    match Code(refusal.code):
        case Code.CHECKPOINT_OPEN:
            return Closed(reason, _retry_after_s(reply))
        case Code.BUSY:
            return NothingRan(refusal.code, reason, _retry_after_s(reply))
        case Code.DUPLICATE_ATTEMPT:
            return NoReply(refusal.code, reason, reply.status)
        case Code.STALE_ATTEMPT | Code.NOT_RESTORED | Code.TASK_MISMATCH:
            through = None if refusal.retired_through is UNSET else refusal.retired_through
            if through is not None and through >= MOST_ATTEMPTS:
                through = None  # nobody has retired so many
            return Refused(refusal.code, reason, retired_through=through)
        case Code.STALE_EPOCH | Code.OTHER_RUN:
            return Overtaken(reason)
        case _:
            return None


def _refusal(reply: Reply) -> Refusal | None:
    """What a server says that speaks our control plane's language, with the status that goes with it."""
    try:
        refusal = _decode_refusal(reply.body).error
        known = Code(refusal.code)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors too
        return None
    return refusal if status_of(known) == reply.status else None


def _retry_after_s(reply: Reply) -> float | None:
    value, sent = ((reply.header(name) or b"").decode("latin-1") for name in (b"retry-after", b"date"))
    return retry_after_s(value, sent)
