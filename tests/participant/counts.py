"""A small server that counts for episodes, with hooks of its own: each can be made to wait or to fail."""

import anyio
import msgspec

from triocollect.participant import (
    Admission,
    EpisodeId,
    Participant,
    Record,
    Refusal,
    decode_state,
    encode_state,
    episode_of,
)


class CountRecord(Record, frozen=True, kw_only=True):
    """`state` is the count; `note` stands beside it."""

    note: str


class Counts(Participant[CountRecord]):
    """Adds numbers, slowly where `slow` holds it up; a count is at its boundary between any two additions."""

    mode = "exported"

    def __init__(self, admission: Admission) -> None:
        super().__init__("resources", "counts", admission, CountRecord)
        self.counts: dict[EpisodeId, object] = {}
        self.unclaimed: set[EpisodeId] = set()
        self.slow: anyio.Event | None = None
        self.heard: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.install_waits: anyio.Event | None = None
        self.stop_waits: anyio.Event | None = None
        self.clear_waits: anyio.Event | None = None
        self.restarts: list[EpisodeId] = []
        self.kept_keys: list[str] = []

    def note(self, hook: str) -> None:
        self.heard.append(hook)
        if hook in self.fails:
            raise self.fails[hook]

    async def add(self, episode: EpisodeId, number: int) -> object:
        work = await self.admission.admit(episode, "an addition is under way")
        if isinstance(work, Refusal):
            return work
        with work:
            self.unclaimed.discard(episode)
            if self.slow is not None:
                await self.slow.wait()
            self.counts[episode] = self.counts.get(episode, 0) + number
            return self.counts[episode]
        return self.admission.marks.refusal(episode)

    def close(self) -> None:
        self.note("close")

    def open(self) -> None:
        self.note("open")

    def report(self):
        self.note("report")
        return self.admission.report(self.restarts, {"counts": len(self.counts)})

    def export(self, scope):
        self.note("export")
        return [
            CountRecord(
                rollout_id=one.rollout_id,
                attempt=one.attempt,
                kind="resources",
                state=encode_state(one, self.counts[one]),
                note="of " + one.capture_key,
            )
            for one in sorted(scope & self.counts.keys())
        ]

    def kept(self):
        return self.kept_keys

    async def install(self, records, becomes):
        self.note("install")
        if self.install_waits is not None:
            await self.install_waits.wait()
        taken = {becomes[episode_of(one)]: decode_state(one.state) for one in records}
        await self.discard(None)
        self.counts |= taken
        self.unclaimed |= taken.keys()
        return list(taken)

    async def discard(self, keep):
        self.note("discard")
        for episode in self.unclaimed - (keep or frozenset()):
            self.free(episode)

    async def stop(self, episodes):
        self.note("stop")
        if self.stop_waits is not None:
            await self.stop_waits.wait()
        await super().stop(episodes)
        for episode in filter(self.admission.marks.retired, [*self.counts]):
            self.free(episode)

    def forget(self, rollout_ids):
        for episode in [one for one in self.counts if one.rollout_id in rollout_ids]:
            self.free(episode)

    async def clear(self):
        self.note("clear")
        if self.clear_waits is not None:
            await self.clear_waits.wait()
        self.counts.clear()
        self.unclaimed.clear()

    def restored_pending(self):
        return len(self.unclaimed)

    def free(self, episode):
        self.unclaimed.discard(episode)
        del self.counts[episode]

    async def __call__(self, scope, receive, send) -> None:
        """The application: POST /<rollout id>/<attempt>/<number>."""
        if scope["type"] == "lifespan":
            await serve_lifespan(receive, send)
            return
        _, rollout_id, attempt, number = scope["path"].split("/")
        answer = await self.add(EpisodeId(rollout_id, int(attempt)), int(number))
        status = 409 if isinstance(answer, Refusal) else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})


async def serve_lifespan(receive, send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
