"""A participant that holds a number for each episode and does as the test says."""

import trio

from tests.participant.states import records_of
from triocollect.participant import (
    Admission,
    Participant,
    decode_state,
    episode_of,
)
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Blocker, PrepareReport


class Server(Participant[Record]):
    """Holds a number for each episode. An episode is at a boundary unless `busy`; `restarts` are reported."""

    mode = "exported"

    def __init__(self, kind, instance):
        super().__init__(kind, instance, Admission(), Record)
        self.held: dict[EpisodeId, object] = {}
        self.busy: dict[EpisodeId, str] = {}
        self.restarts: list[EpisodeId] = []
        self.stopped: list[EpisodeId] = []
        self.unclaimed: set[EpisodeId] = set()
        self.counts: dict[str, int] = {}
        self.counts_written: dict[str, int] = {}  # others, from the export on
        self.has_served = False
        self.stop_waits: trio.Event | None = None
        self.refuses_install: Exception | None = None
        self.forgets_to_install: EpisodeId | None = None

    def begin(self, episode, why=None):
        """It is at work on an episode: at a boundary, or in a step that has to end before a cut."""
        self.held.setdefault(episode, 0)
        self.has_served = True
        if why is not None:
            self.busy[episode] = why

    def at_boundary(self, episode):
        del self.busy[episode]
        self.admission.changed()

    def report(self):
        blockers = tuple(Blocker(one.capture_key, why) for one, why in self.busy.items())
        restarts = tuple(one.capture_key for one in self.restarts)
        return PrepareReport(
            blockers=blockers, blocker_count=len(blockers), restarts=restarts, counts=self.counts
        )

    def export(self, scope):
        self.counts = {**self.counts, **self.counts_written}
        return records_of(self.kind, self.held, scope)

    async def install(self, records, becomes):
        if self.refuses_install is not None:
            raise self.refuses_install
        self.held = {becomes[episode_of(one)]: decode_state(one.state) for one in records}
        self.held.pop(self.forgets_to_install, None)
        self.unclaimed = set(self.held)
        return list(self.held)

    async def discard(self, keep):
        for episode in self.unclaimed - (keep or frozenset()):
            del self.held[episode]
        self.unclaimed &= keep or frozenset()

    async def stop(self, episodes):
        if self.stop_waits is not None:
            await self.stop_waits.wait()
        self.stopped += episodes
        for episode in episodes:
            self.held.pop(episode, None)

    def forget(self, rollout_ids):
        for episode in [one for one in self.held if one.rollout_id in rollout_ids]:
            del self.held[episode]

    def served(self):
        return self.has_served

    def restored_pending(self):
        return len(self.unclaimed)
