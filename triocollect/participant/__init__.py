'''Make a server a participant: its work can be cut in two by a checkpoint and continued by another process.

Works with any ASGI application, under trio and under asyncio. Three things are needed.

**1. An `Admission`**, the door that all work goes through. Work enters with the episode that it belongs to
and says what is under way for as long as a checkpoint must not cut it; where it has recorded all that its
next step needs, it stands at a *boundary* and can be cut.

**2. Hooks**: how the state at the boundaries is written down and taken up again. `Participant` answers
whatever the admission knows by itself. Its `mode` is "restart_only" until you say otherwise: whoever was
served is told as a restart, which a continued run plays anew.

**3. A `ControlPlane`** around the application, which speaks the protocol under `/checkpoint/v1`. The
server's lifespan has to be on: a write that outlasts its call lives in it.

A server that counts, whole::

    class CountRecord(Record, frozen=True, kw_only=True):
        """`state` is the count."""

    class Counts(Participant[CountRecord]):
        mode: Mode = "exported"

        def __init__(self, admission: Admission) -> None:
            super().__init__("resources", "counts", admission, CountRecord)
            self.counts: dict[EpisodeId, int] = {}    # at its boundary between any two requests
            self.unclaimed: set[EpisodeId] = set()    # installed, and not asked for yet

        async def add(self, episode: EpisodeId, number: int) -> int | Refusal | None:
            work = await self.admission.admit(episode, "an addition is under way")  # waits while closed
            if isinstance(work, Refusal):
                return work                           # a retired attempt, an older epoch, another run
            with work:
                self.unclaimed.discard(episode)
                await something_slow()
                self.counts[episode] = self.counts.get(episode, 0) + number
                return self.counts[episode]
            return self.admission.marks.refusal(episode)   # retired while at work: the body was cancelled

        def export(self, scope: frozenset[EpisodeId]) -> list[CountRecord]:
            return [
                CountRecord(
                    rollout_id=one.rollout_id, attempt=one.attempt, kind="resources",
                    state=encode_state(one, self.counts[one]),
                )
                for one in scope & self.counts.keys()
            ]

        async def install(self, records, becomes):
            taken = {becomes[episode_of(one)]: decode_state(one.state) for one in records}
            await self.discard(None)                  # what was installed before, and nobody claimed
            self.counts |= taken
            self.unclaimed |= taken.keys()
            return list(taken)

        async def discard(self, keep):
            for episode in self.unclaimed - (keep or frozenset()):
                self.unclaimed.remove(episode)
                del self.counts[episode]

        async def stop(self, episodes):
            await super().stop(episodes)              # cancels what is under way and waits for it
            for episode in filter(self.admission.marks.retired, [*self.counts]):
                self.unclaimed.discard(episode)
                del self.counts[episode]

    admission = Admission()
    counts = Counts(admission)
    app = ControlPlane(my_app, counts, admission, token=token, root=Path("/shared/checkpoints"))

`forget`, `clear` and `restored_pending` are as short; `tests/participant/counts.py` has all of it.

Longer work moves between boundaries by itself::

    with admission.enter(episode, "a step is under way") as work:   # after asking `closed` and `refusal`
        while not finished:
            async with work.resting("a step is under way"):
                reply = await ask_the_model(conversation)   # may be asked again after a crash: never blocks
            conversation.append(reply)                      # nothing gets here while a checkpoint is open
            result = await call_the_tool(reply)             # must be finished before a cut: blocks
            conversation.append(result)
            await work.boundary("a step is under way")      # stands here while a checkpoint is open

What an author has to know:

- Between `close` and `open` no state may change that `export` would show, but by work that blocks.
- A request that comes while closed waits in `admit`; only an environment's `/run` is refused
  (`checkpoint_open`), by asking `closed` first. No timeout of yours may run while you are closed.
- After every wait ask again: `until_open` returns when the door is open, not when your attempt is still
  wanted. `admit` does that for you.
- A client that goes away while you are closed is noticed after the opening: nothing of a cut may change.
- A lease ends a pause whose collector died. Nobody watches it: whoever waits at the door ends it, once.
- States hold plain JSON types only; `encode_state` refuses what would not come back exactly as it was.
'''

from triocollect.participant.admission import Admission, Work
from triocollect.participant.base import Participant
from triocollect.participant.hooks import Hooks, episode_of
from triocollect.participant.plane import ControlPlane
from triocollect.participant.state import decode_state, encode_state
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.refusals import Refusal

__all__ = [
    "Admission",
    "ControlPlane",
    "EpisodeId",
    "Hooks",
    "Participant",
    "Record",
    "Refusal",
    "Work",
    "decode_state",
    "encode_state",
    "episode_of",
]
