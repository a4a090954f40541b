"""Asks the servers that ran the rollouts for their metrics.

What is averaged is up to the servers. Rules: Gym 0.7.0, rollout_collection.py, _call_aggregate_metrics.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from triocollect.errors import ReplyRefusedError
from triocollect.gym.episodes import is_null
from triocollect.gym.routing import Routing, Scorer
from triocollect.metrics import Credited, Entry, file_bytes, labels_of
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import NOT_JSON
from triocollect.rows.types import AgentRef
from triocollect.transport import Reply

__all__ = ["Share", "entry_of", "fetch_metrics", "file_bytes", "request_body", "share_out", "stripped"]

_HEAVY: Final = (
    "response",
    "responses_create_params",
    "ng_agent_observations",
    "ng_model_call_capture",
    "ng_trajectory",
)
_JSON: Final = ((b"content-type", b"application/json"),)
_OK: Final = 200


class Share(msgspec.Struct):
    """The records that one server aggregates, stripped, in the order of their keys.

    The first of them in that order says whose metrics these are, as in Gym.
    """

    scorer: Scorer
    first: RowKey
    records: list[tuple[RowKey, bytes]]

    @property
    def name(self) -> str:
        """What tells this share from others: its server, else its agent, else its address."""
        return self.scorer.target.server or self.scorer.agent or self.scorer.target.url


class Posts(Protocol):
    """What of the transport is needed here."""

    async def post(self, url: str, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply: ...


class _Head(msgspec.Struct, frozen=True):
    task: int = msgspec.field(name="_ng_task_index")
    rollout: int = msgspec.field(name="_ng_rollout_index")
    agent_ref: AgentRef | None = None
    environment_server: str | None = msgspec.field(name="_ng_environment_server", default=None)


class _Response(msgspec.Struct, frozen=True, omit_defaults=True):
    usage: Raw | UnsetType = UNSET
    incomplete_details: Raw | UnsetType = UNSET


class _Request(msgspec.Struct, frozen=True):
    verify_responses: list[Raw]


class _Metrics(msgspec.Struct, frozen=True):
    agent_metrics: Raw = Raw(b"{}")
    key_metrics: Raw = Raw(b"{}")
    group_level_metrics: Raw = Raw(b"[]")
    repeat_level_metrics: Raw | UnsetType = UNSET
    perf_summary: Raw = Raw(b"null")


_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def share_out(records: Iterable[bytes], routing: Routing) -> list[Share]:
    """Groups stamped records (lines of the output, counted zeros) by the server that aggregates them.

    Holds the stripped records in memory: all of a server's go into one request. Raises ConfigError for
    records of a server that the config does not know, msgspec.MsgspecError for a line that is no record.
    """
    shares: dict[str, Share] = {}
    scorers: dict[tuple[str | None, str | None], Scorer] = {}
    for record in records:
        head = _decode_head(record)
        names = (head.environment_server, None if head.agent_ref is None else head.agent_ref.name)
        if (scorer := scorers.get(names)) is None:
            scorer = scorers[names] = routing.scorer(*names)
        key = RowKey(head.task, head.rollout)
        share = shares.setdefault(scorer.target.server or scorer.target.url, Share(scorer, key, []))
        if key < share.first:
            share.scorer, share.first = scorer, key
        share.records.append((key, stripped(record)))
    for share in shares.values():
        share.records.sort(key=lambda record: record[0])
    return sorted(shares.values(), key=lambda share: share.name)


def stripped(record: bytes) -> bytes:
    """A record without what metrics do not need; of `response` usage and incomplete_details stay."""
    fields = _decode_fields(record)
    response = fields.get("response")
    for key in _HEAVY:
        fields.pop(key, None)
    if response is not None and (kept := _kept_of(response)) is not None:
        fields["response"] = kept
    return msgspec.json.encode(fields)


def request_body(share: Share) -> bytes:
    """The body of POST /aggregate_metrics."""
    return msgspec.json.encode(_Request([Raw(record) for _, record in share.records]))


def entry_of(share: Share, label: str, reply: bytes) -> Entry:
    """One server's answer as it stands in the file. Raises msgspec.MsgspecError for anything else."""
    metrics = msgspec.json.decode(reply, type=_Metrics)
    server = share.scorer.target.server
    repeats = metrics.repeat_level_metrics
    if repeats is UNSET and server is not None:
        repeats = Raw(b"[]")
    return Entry(
        agent_ref=Credited(label),
        environment_server=UNSET if server is None else server,
        agent_metrics=metrics.agent_metrics,
        key_metrics=metrics.key_metrics,
        group_level_metrics=metrics.group_level_metrics,
        repeat_level_metrics=repeats,
        perf_summary=UNSET if is_null(metrics.perf_summary) else metrics.perf_summary,
    )


async def fetch_metrics(transport: Posts, shares: Sequence[Share]) -> list[Entry]:
    """Asks every server in turn; an entry each.

    Raises TransportError (ReplyRefusedError for an error status or an answer that is not metrics). What is
    in the entries was not decoded, and the file is read by others: an answer that Python's own reader does
    not take (other text than UTF-8, numbers of thousands of digits, deep nesting) is not metrics either.
    """
    labels = labels_of({share.name: share.scorer.agent for share in shares})
    entries = []
    for share in shares:
        url = f"{share.scorer.target.url}/aggregate_metrics"
        reply = await transport.post(url, request_body(share), _JSON)
        if reply.status != _OK:
            raise ReplyRefusedError(f"{url} answered {reply.status}", kind="status", status=reply.status)
        try:
            entry = entry_of(share, labels[share.name], reply.body)
            json.loads(file_bytes([entry]))
        except (ValueError, *NOT_JSON) as fault:
            why = "it is nested too deep" if isinstance(fault, RecursionError) else str(fault)
            raise ReplyRefusedError(
                f"{url} did not answer with metrics: {why}", kind="body", status=reply.status
            ) from fault
        entries.append(entry)
    return entries


def _kept_of(response: Raw) -> Raw | None:
    try:
        found = msgspec.json.decode(response, type=_Response)
    except NOT_JSON:
        return None  # a response that is no object has neither
    kept = _Response(_unless_null(found.usage), _unless_null(found.incomplete_details))
    return None if kept == _Response() else Raw(msgspec.json.encode(kept))


def _unless_null(value: Raw | UnsetType) -> Raw | UnsetType:
    return UNSET if value is UNSET or is_null(value) else value
