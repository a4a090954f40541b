"""What a /run asks for, in either of Gym 0.7.0's two shapes, and the reply in the same shape. Pure."""

import uuid
from collections.abc import Collection
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import Attempt, EpisodeId, RowKey, rollout_id_fault
from triocollect.servers.states import digest_of

Stage: TypeAlias = Literal["admission", "seed", "agent", "verification", "cleanup"]

MAX_REASON: Final = 2000  # characters
OF_ONE_ATTEMPT: Final = frozenset({"_ng_attempt_index", "reuse_cached_deliverable"})  # Gym 0.7.0
COLLECTORS_OWN: Final = ("ng_trajectory", "ng_model_call_capture", "ng_perf")  # and whatever begins with _ng_


class RunRequest(msgspec.Struct, frozen=True):
    """One /run: whose it is, from which source, and the row's fields as they came.

    `task_id` is that of an episode request and UNSET for a flat row; it decides the shape of the reply.
    `nameless`: the row does not say whose it is, so it got a name that nobody else knows. `sender`: for
    which collector, if it says so.
    """

    episode: EpisodeId
    source: str
    fields: dict[str, Raw]
    task_id: Raw | UnsetType = UNSET
    nameless: bool = False
    sender: Sender | None = None


class _AgentRef(msgspec.Struct, frozen=True):
    name: str | None = None


class _Flat(msgspec.Struct, frozen=True, rename={"rollout_id": "_ng_rollout_id", "task": "_ng_task_index"}):
    rollout_id: str | None = None
    task: int | None = None
    rollout: int | None = msgspec.field(name="_ng_rollout_index", default=None)
    attempt: Attempt | None = msgspec.field(name="_ng_attempt_index", default=None)
    server: str | None = msgspec.field(name="_ng_environment_server", default=None)
    agent_ref: _AgentRef | None = None
    task_source: str | None = None


class _TaskId(msgspec.Struct, frozen=True):
    taskset: str | None = None


class _TaskInput(msgspec.Struct, frozen=True):
    responses_create_params: Raw | UnsetType = UNSET
    task_data: dict[str, Raw] = {}


class _Task(msgspec.Struct, frozen=True):
    task_id: Raw
    task_input: _TaskInput


class _Request(msgspec.Struct, frozen=True):
    episode_id: EpisodeId
    task: _Task


class _Shape(msgspec.Struct, frozen=True):
    episode_id: Raw | UnsetType = UNSET
    task: Raw | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True):
    """Why an episode has no result. `terminal`: another attempt would end the same way."""

    failure_reason: str
    terminal: bool
    stage: Stage
    failure_kind: str | None = None


class EpisodeReply(msgspec.Struct, frozen=True):
    """The reply to an episode request: exactly one of `result` and `failure` is not null."""

    episode_id: EpisodeId
    task_id: Raw
    result: dict[str, Raw] | None = None
    failure: Failure | None = None


def parse_run(body: bytes, sources: Collection[str]) -> RunRequest:
    """Read a /run. Raises ValueError (msgspec's included) in words, RecursionError where it is too deep."""
    shape = msgspec.json.decode(body, type=_Shape)
    if shape.episode_id is not UNSET and shape.task is not UNSET:
        return _of_episode(msgspec.json.decode(body, type=_Request), sources)
    flat = msgspec.json.decode(body, type=_Flat)
    agent = None if flat.agent_ref is None else flat.agent_ref.name
    source = _source(agent or flat.server or flat.task_source, sources)
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    name = _flat_name(flat)
    episode = _checked(EpisodeId(uuid.uuid4().hex if name is None else name, flat.attempt or 0))
    return RunRequest(episode, source, fields, nameless=name is None)


def episode_of_run(body: bytes) -> EpisodeId | None:
    """Whose /run it is; None for a row that does not say. Raises what `parse_run` raises."""
    shape = msgspec.json.decode(body, type=_Shape)
    if shape.episode_id is not UNSET and shape.task is not UNSET:
        return _checked(msgspec.json.decode(shape.episode_id, type=EpisodeId))
    flat = msgspec.json.decode(body, type=_Flat)
    name = _flat_name(flat)
    return None if name is None else _checked(EpisodeId(name, flat.attempt or 0))


def task_digest(asked: RunRequest) -> str:
    """Hex sha256 of what is asked for, the same for every attempt at it."""
    named = {name: value for name, value in asked.fields.items() if name not in OF_ONE_ATTEMPT}
    source = Raw(msgspec.json.encode((asked.source, asked.episode.rollout_id)))
    task_id = Raw(b"null") if asked.task_id is UNSET else asked.task_id
    # A row's own fields cannot be confused with these two, whatever they are called.
    return digest_of({f".{name}": value for name, value in named.items()} | {"of": source, "task": task_id})


def without_the_collectors(fields: dict[str, Raw]) -> dict[str, Raw]:
    """A record's fields without those names that only the collector gives."""
    return {
        name: value
        for name, value in fields.items()
        if not name.startswith("_ng_") and name not in COLLECTORS_OWN
    }


def _of_episode(request: _Request, sources: Collection[str]) -> RunRequest:
    _checked(request.episode_id)
    taskset = msgspec.json.decode(request.task.task_id, type=_TaskId).taskset
    fields = dict(request.task.task_input.task_data)
    if (params := request.task.task_input.responses_create_params) is not UNSET:
        fields["responses_create_params"] = params
    # Routes may give a taskset any name, which tells nothing here; one source needs no telling.
    source = next(iter(sources)) if len(sources) == 1 else _source(taskset, sources)
    return RunRequest(request.episode_id, source, fields, request.task.task_id)


def _flat_name(flat: _Flat) -> str | None:
    """The rollout id of a row, if it says anything of itself."""
    if flat.rollout_id is not None:
        return flat.rollout_id
    if flat.task is not None and flat.rollout is not None:
        return str(RowKey(flat.task, flat.rollout))
    return None


def _checked(episode: EpisodeId) -> EpisodeId:
    if (fault := rollout_id_fault(episode.rollout_id)) is not None:
        raise ValueError(fault)
    return episode


def _source(name: str | None, sources: Collection[str]) -> str:
    """The source that a name means: itself, `<source>_agent`, `<source>_environment`."""
    if name is None and len(sources) == 1:
        return next(iter(sources))
    for source in sources:
        if name in {source, f"{source}_agent", f"{source}_environment"}:
            return source
    said = "no agent and no task_source" if name is None else repr(name)
    raise ValueError(f"the row names {said}; served here: {', '.join(sorted(sources))}")
