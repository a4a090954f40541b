"""The data requests that stand for a server's work, by kind. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec
from attrs import frozen

from triocollect.protocol.identity import CONTINUED, Sender, identity_headers, model_path
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Kind
from triocollect.protocol.values import Json, JsonObject

PLAIN_ROW: Final[JsonObject] = {"responses_create_params": {"input": "Say yes."}}
_OWN_NAMES: Final = ("_ng_rollout_id", "_ng_attempt_index", "_ng_task_index", "_ng_rollout_index")


@frozen
class Work:
    """One POST."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@frozen
class Works:
    """What a server of this kind is asked for an episode, made of a row of a data set.

    `path` replaces the kind's own route: it gets the row, and the identity in headers.
    """

    kind: Kind
    row: JsonObject
    path: str | None = None

    def of(self, episode: EpisodeId, sender: Sender | None = None, *, continued: bool = False) -> Work:
        """The request of this episode, for this collector."""
        headers = identity_headers(episode, sender) | ({CONTINUED: "1"} if continued else {})
        path, body = self._asked(episode)
        return Work(self.path or path, headers, msgspec.json.encode(body))

    def of_nobody(self) -> Work:
        """The same without a word of whose it is."""
        work = self.of(EpisodeId("nobody"))
        if self.kind == "model" and self.path is None:
            return Work("/v1/responses", {}, work.body)
        return Work(work.path, {}, msgspec.json.encode(_without_names(_decoded(work.body))))

    def _asked(self, episode: EpisodeId) -> tuple[str, JsonObject]:
        match self.kind:
            case "environment":
                name: JsonObject = {
                    "_ng_rollout_id": episode.rollout_id,
                    "_ng_attempt_index": episode.attempt,
                }
                return "/run", _without_names(self.row) | name
            case "model":
                return model_path(episode), _parameters(self.row)
            case "agent":
                return "/v1/agent_sessions", {"agent": _agent(self.row)}
            case "resources":
                return "/seed_session", self.row


def _decoded(body: bytes) -> JsonObject:
    value: Json = msgspec.json.decode(body)
    assert isinstance(value, dict)
    return value


def _without_names(row: JsonObject) -> JsonObject:
    return {key: value for key, value in row.items() if key not in _OWN_NAMES}


def _parameters(row: JsonObject) -> JsonObject:
    params = row.get("responses_create_params")
    return params if isinstance(params, dict) else {"input": "Say yes."}


def _agent(row: JsonObject) -> Json:
    """As an environment server knows it: named by the row, or that of the row's source."""
    agent = row.get("agent_ref")
    return agent.get("name") if isinstance(agent, dict) else f"{row.get('task_source', 'default')}_agent"
