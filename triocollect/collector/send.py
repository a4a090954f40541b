"""One send of one row: to an environment server, or to the caller's own function."""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec
import trio
from msgspec import Raw

from triocollect.collector.outcome import NoReply, Outcome
from triocollect.collector.reply import Sent, failed, judge, judge_error
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

CALLERS_OWN: Final = Target(url="the caller's dispatch function", server=None, implementation=None)


def to_servers(
    transport: Client,
    routing: Routing,
    *,
    row_timeout_s: float | None,
    reuse: Mapping[RowKey, Raw],
) -> Send:
    """`POST /run` to where each row belongs.

    `reuse` has Gym's `reuse_cached_deliverable` of earlier failures.
    A row that outlasts `row_timeout_s` has no reply: its request is cancelled.
    """

    async def send(row: Row, episode: EpisodeId) -> Outcome:
        sent = Sent(row, episode, routing.target(row))
        body = run_body(row, episode.attempt, reuse_cached_deliverable=reuse.get(row.key))
        with trio.move_on_after(math.inf if row_timeout_s is None else row_timeout_s):
            try:
                return judge(sent, await transport.post(f"{sent.target.url}/run", body))
            except TransportError as error:
                return judge_error(sent, error)
        return NoReply("row_timeout", f"no reply within the row timeout of {row_timeout_s:g} s")

    return send


def to_function(dispatch: Dispatch, *, row_timeout_s: float | None) -> Send:
    """The caller's `dispatch(row, attempt)`: what it returns is the reply, what it raises fails that row."""

    async def send(row: Row, episode: EpisodeId) -> Outcome:
        sent = Sent(row, episode, CALLERS_OWN)
        with trio.move_on_after(math.inf if row_timeout_s is None else row_timeout_s):
            try:
                returned = await dispatch(decode_object(row.line), episode.attempt)
                body = returned if isinstance(returned, bytes) else msgspec.json.encode(returned)
            except Exception as error:  # noqa: BLE001  # one row's failure never ends a run
                return failed(sent, kind=type(error).__name__, message=str(error), reply=None)
            return judge(sent, Reply(status=200, headers=(), body=body))
        return NoReply("row_timeout", f"no reply within the row timeout of {row_timeout_s:g} s")

    return send
