"""An episode as a value, and its steps as a table. What a step needs is in the value and nowhere else."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, NamedTuple

import attrs
import msgspec
import trio
from msgspec import Raw
from msgspec.structs import replace

from triocollect.errors import PeerError
from triocollect.protocol.identity import identity_headers, model_path, sender_headers
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.cookies import renewed
from triocollect.servers.environment.run_requests import RunRequest, Stage, without_the_collectors
from triocollect.servers.peers import Peer, PeerReply

CLOSE_GRACE_S: Final = 5.0

_log: Final = logging.getLogger("triocollect.servers.environment")


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One episode at a boundary: `step` is the number of the next step in STEPS, len(STEPS) at the end."""

    asked: RunRequest
    step: int = 0
    cookie: str | None = None  # of the session at the resources server, for those that go by it
    response: dict[str, Raw] | None = None  # the agent's
    record: dict[str, Raw] | None = None  # the verifier's word, complete


@attrs.frozen(kw_only=True)
class SourcePeers:
    """Whom the episodes of one source talk to."""

    agent_name: str
    agent: Peer
    resources: Peer


class Step(NamedTuple):
    """One step. `wait`: not safe to run twice, so a cut waits for its end. `replay`: runs again after one.

    `stage` is what a failure of it is filed under.
    """

    name: str
    kind: Literal["wait", "replay"]
    stage: Stage
    run: Callable[[Episode, SourcePeers], Awaitable[Episode]]


async def _seed(episode: Episode, around: SourcePeers) -> Episode:
    reply = await around.resources.post("/seed_session", _encode(episode.asked.fields), _headers(episode))
    return replace(episode, cookie=reply.cookie)


async def _open(episode: Episode, around: SourcePeers) -> Episode:
    opening = {"agent": around.agent_name, "cookie": episode.cookie}
    await around.agent.post("/v1/agent_sessions", msgspec.json.encode(opening), _identity(episode))
    return episode


async def _activate(episode: Episode, around: SourcePeers) -> Episode:
    params = episode.asked.fields.get("responses_create_params", Raw(b"{}"))
    headers = sender_headers(episode.asked.sender)
    reply = await around.agent.post(model_path(episode.asked.episode), bytes(params), headers)
    cookie = renewed(episode.cookie, reply.cookie)
    return replace(episode, response=_fields(around.agent, reply), cookie=cookie)


async def _verify(episode: Episode, around: SourcePeers) -> Episode:
    assert episode.response is not None
    response = Raw(msgspec.json.encode(episode.response))
    claim = {**episode.asked.fields, "response": response}
    reply = await around.resources.post("/verify", _encode(claim), _headers(episode))
    return replace(episode, record=_record(claim, _fields(around.resources, reply), around.resources.name))


async def end_sessions(episode: Episode, around: SourcePeers) -> Episode:
    """End an episode's sessions, whatever it had of them, within CLOSE_GRACE_S.

    Never raises PeerError: a server that cannot close takes no result away.
    """
    with trio.move_on_after(CLOSE_GRACE_S) as patience:
        for peer, path, headers in (
            (around.agent, "/v1/agent_sessions/close", _identity(episode)),
            (around.resources, "/close_session", _headers(episode)),
        ):
            try:
                await peer.post(path, b"{}", headers)
            except PeerError as error:
                _log.warning("%s was not closed: %s", episode.asked.episode.capture_key, error)
    if patience.cancelled_caught:
        _log.warning("%s was not closed in time", episode.asked.episode.capture_key)
    return episode


STEPS: Final = (
    Step("seed", "wait", "seed", _seed),
    Step("open", "replay", "agent", _open),
    Step("activate", "replay", "agent", _activate),
    Step("verify", "replay", "verification", _verify),
    Step("close", "replay", "cleanup", end_sessions),
)


def _identity(episode: Episode) -> dict[str, str]:
    return identity_headers(episode.asked.episode, episode.asked.sender)


def _headers(episode: Episode) -> Mapping[str, str]:
    headers = _identity(episode)
    return headers if episode.cookie is None else {**headers, "cookie": episode.cookie}


def _encode(fields: Mapping[str, Raw]) -> bytes:
    return msgspec.json.encode(fields)


def _record(claim: dict[str, Raw], verdict: dict[str, Raw], verifier: str) -> dict[str, Raw]:
    """The flat record (Gym 0.7.0): the base fields first, then whatever else the verifier says."""
    if "reward" not in verdict:
        raise PeerError(f"{verifier} gave no reward", passing=False)
    base = {
        "responses_create_params": claim.get("responses_create_params", Raw(b"{}")),
        "response": claim["response"],
        "reward": verdict["reward"],
        "mask_sample": Raw(b"false"),
        "failure_kind": Raw(b"null"),
        "failure_reason": Raw(b"null"),
    }
    return {**base, **without_the_collectors(verdict)}


def _fields(peer: Peer, reply: PeerReply) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(reply.body, type=dict[str, Raw])
    except NOT_JSON as error:
        raise PeerError(f"{peer.name} answered with no JSON object: {error}", passing=False) from error
