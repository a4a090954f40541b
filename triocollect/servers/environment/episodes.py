"""All episodes of this process, each at its latest boundary: what a checkpoint takes of them."""

from collections.abc import Mapping, Sequence
from typing import Final, final

import msgspec
from msgspec import Raw

from triocollect.errors import StateError
from triocollect.participant import Admission, episode_of
from triocollect.participant.restoring import Restoring
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Mode
from triocollect.protocol.refusals import Code, Refusal
from triocollect.servers.environment.episode import STEPS, Episode
from triocollect.servers.environment.run_requests import RunRequest, task_digest
from triocollect.servers.states import give_back, keep


class EpisodeRecord(Record, frozen=True, kw_only=True):
    """`task_digest`: of what was asked for, so that nothing else goes on from it."""

    task_digest: str


class Boundary(msgspec.Struct, frozen=True):
    """The `state` of a record: an `Episode` without its request, which the next /run brings again."""

    step: int
    cookie: str | None
    response: dict[str, Raw] | None
    record: dict[str, Raw] | None


class _Restored(msgspec.Struct, frozen=True):
    task_digest: str
    boundary: Boundary


@final
class Episodes(Restoring[EpisodeRecord, _Restored]):
    """The episodes under way, and those that were restored and have not been asked for."""

    mode: Mode = "exported"

    def __init__(self, instance: str, admission: Admission) -> None:
        super().__init__("environment", instance, admission, EpisodeRecord)
        self.under_way: Final[dict[EpisodeId, Episode]] = {}

    def begin(self, asked: RunRequest, *, continued: bool) -> Episode | Refusal:
        """Start an episode, or say why not. A restored record is used up by a start and by nothing else.

        A request that does not say that it is `continued` is played from its input.
        """
        name = asked.episode
        if (refused := self.admission.refusal(name, sender=asked.sender)) is not None:
            return refused
        self.admission.end_expired_lease()
        if self.admission.closed:
            return Refusal(code=Code.CHECKPOINT_OPEN, detail="no episode starts while a checkpoint is taken")
        if name in self.under_way:
            return Refusal(code=Code.DUPLICATE_ATTEMPT, detail=f"{name.capture_key} is under way already")
        episode = self._continued(asked) if continued else Episode(asked=asked)
        if isinstance(episode, Episode):
            self.restored.pop(name, None)
            self.under_way[name] = episode
        return episode

    def at_boundary(self, episode: Episode) -> None:
        """This is where the episode stands now."""
        self.under_way[episode.asked.episode] = episode

    def end(self, name: EpisodeId) -> None:
        """The episode is over."""
        del self.under_way[name]
        self.freed(name)

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[EpisodeRecord]:
        """Every episode of the scope that is here."""
        flying = [
            _record(name, task_digest(episode.asked), _boundary(episode))
            for name, episode in self.under_way.items()
            if name in scope
        ]
        waiting = [
            _record(name, one.task_digest, one.boundary)
            for name, one in self.restored.items()
            if name in scope
        ]
        return [*flying, *waiting]

    async def install(
        self, records: Sequence[EpisodeRecord], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Keep each record until it is asked for. Raises StateError."""
        self.restored = {
            becomes[name]: _Restored(record.task_digest, _boundary_of(record))
            for record in records
            if (name := episode_of(record)) in becomes
        }
        return tuple(self.restored)

    def _continued(self, asked: RunRequest) -> Episode | Refusal:
        name = asked.episode
        if (restored := self.restored.get(name)) is None:
            return Refusal(code=Code.NOT_RESTORED, detail=f"nothing of {name.capture_key} was restored here")
        if restored.task_digest != task_digest(asked):
            return Refusal(
                code=Code.TASK_MISMATCH, detail=f"{name.capture_key} was restored from another task's episode"
            )
        return Episode(asked=asked, **msgspec.structs.asdict(restored.boundary))


def _boundary(episode: Episode) -> Boundary:
    return Boundary(episode.step, episode.cookie, episode.response, episode.record)


def _record(name: EpisodeId, digest: str, boundary: Boundary) -> EpisodeRecord:
    return EpisodeRecord(
        rollout_id=name.rollout_id,
        attempt=name.attempt,
        kind="environment",
        state=keep(boundary),
        task_digest=digest,
    )


def _boundary_of(record: EpisodeRecord) -> Boundary:
    boundary = give_back(record.state, Boundary)
    if not 0 <= boundary.step <= len(STEPS):
        raise StateError(f"{record.rollout_id}: there is no step {boundary.step}")
    return boundary
