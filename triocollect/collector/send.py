"""One send of one row: to an environment server, or to the caller's own function."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import trio
from msgspec import Raw

from triocollect.collector.outcome import NoReply, NothingRan, Outcome
from triocollect.collector.reply import SentRow, failed, judge, judge_error
from triocollect.collector.row_clock import RowClock
from triocollect.errors import TransportError
from triocollect.gym.bodies import run_body
from triocollect.gym.routing import Routing, Target
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.values import Json, JsonObject
from triocollect.rows.codec import decode_object
from triocollect.rows.types import Row
from triocollect.transport import Client, Reply

Send: TypeAlias = Callable[[Row, EpisodeId], Awaitable[Outcome]]
Dispatch: TypeAlias = Callable[[JsonObject, int], Awaitable[Mapping[str, Json] | bytes]]

Headers: TypeAlias = Callable[[RowKey], Sequence[tuple[bytes, bytes]]]

CALLERS_OWN: Final = Target(url="the caller's dispatch function", server=None, implementation=None)
LOST_S: Final = 1.0


def to_servers(
    transport: Client,
    routing: Routing,
    clock: RowClock,
    *,
    reuse: Mapping[RowKey, Raw],
    headers: Headers,
) -> Send:
    """`POST /run` to where each row belongs.

    `reuse` has Gym's `reuse_cached_deliverable` of earlier failures, `headers` what is said beside a row.
    A row that outlasts the clock's time has no reply: its request is cancelled.
    """

    async def send(row: Row, episode: EpisodeId) -> Outcome:
        sent = SentRow(row, episode, routing.target(row))
        body = run_body(row, episode.attempt, reuse_cached_deliverable=reuse.get(row.key))
        with clock.limit():
            try:
                reply = await transport.post(f"{sent.target.url}/run", body, headers(row.key))
                return judge(sent, reply)
            except TransportError as error:
                return judge_error(sent, error)
        return _too_late(clock)

    return send


def beside(one: Headers, other: Headers) -> Headers:
    """What both of them say."""
    return lambda key: (*one(key), *other(key))


def after_a_while(send: Send) -> Send:
    """The same, but what brings no reply is told only after LOST_S: to servers of our own.

    Where one of them has died the run ends, and it hears of that first; else rows would use up attempts, and
    get lines in the sidecar, for what is no fault of theirs.
    """

    async def patiently(row: Row, episode: EpisodeId) -> Outcome:
        outcome = await send(row, episode)
        if isinstance(outcome, NoReply | NothingRan) and outcome.retry_after_s is None:
            await trio.sleep(LOST_S)
        return outcome

    return patiently


def to_function(dispatch: Dispatch, clock: RowClock) -> Send:
    """The caller's `dispatch(row, attempt)`: what it returns is the reply, what it raises fails that row."""

    async def send(row: Row, episode: EpisodeId) -> Outcome:
        sent = SentRow(row, episode, CALLERS_OWN)
        with clock.limit():
            try:
                returned = await dispatch(decode_object(row.line), episode.attempt)
                body = returned if isinstance(returned, bytes) else msgspec.json.encode(dict(returned))
            except Exception as error:  # noqa: BLE001  # one row's failure never ends a run
                return failed(sent, kind=type(error).__name__, message=_words_of(error), reply=None)
            return judge(sent, Reply(status=200, headers=(), body=body))
        return _too_late(clock)

    return send


def _too_late(clock: RowClock) -> NoReply:
    return NoReply("row_timeout", f"no reply within the row timeout of {clock.timeout_s or 0:g} s")


def _words_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # somebody else's __str__
        return "an error that cannot say what it is"
