"""All participants of a run: its first word to them, its operations, retires, and what it owes them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio

from triocollect.checkpoint.cutting import Cutting
from triocollect.checkpoint.discovery import address_of
from triocollect.checkpoint.installing import Installing
from triocollect.checkpoint.operation import RESUME_PATIENCE_S, Common, Operation, Owed, is_resumed
from triocollect.checkpoint.participants import Participant, each, settle
from triocollect.errors import CheckpointError, ControlError, RefusedError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import (
    Forget,
    Forgotten,
    Greeted,
    Hello,
    Kind,
    Resume,
    Resumed,
    Retire,
    Retired,
    Seen,
    Status,
)
from triocollect.protocol.refusals import Code
from triocollect.telemetry import span

MOST_AT_ONCE: Final = 1024  # episodes in one retire
RETIRE_PATIENCE_S: Final = 30.0
HELLO_PATIENCE_S: Final = 10.0
STATUS_PATIENCE_S: Final = 10.0
LEAST_LEASE_S: Final = 60.0
LAST_WORDS_S: Final = 2.0

# Who drives an episode first, so that nothing is started below while that is stopped.
_RETIRING: Final[tuple[frozenset[Kind], ...]] = (
    frozenset({"environment"}),
    frozenset({"agent"}),
    frozenset({"model", "resources"}),
)
_SOMEBODY_ELSE: Final = frozenset({Code.OTHER_RUN, Code.STALE_EPOCH})


def lease_s(checkpoint_timeout_s: float) -> float:
    """How long after the latest budget a closed participant waits for another call."""
    return max(2 * checkpoint_timeout_s, LEAST_LEASE_S)


class Coordination:
    """Commands the participants, one operation at a time; the caller sees to that.

    `run` is the directory's random id. `restarted` hears of every reply that names another boot than before.
    """

    def __init__(
        self,
        participants: Iterable[Participant],
        *,
        run: str,
        epoch: int,
        lease_s: float,
        restarted: Callable[[str], None],
    ) -> None:
        self.participants: Final = tuple(participants)
        self._addresses: Final = {participant.url: participant for participant in self.participants}
        self._run: Final = run
        self.epoch: Final = epoch
        self._lease_ms: Final = int(lease_s * 1000)
        self._operation = 0
        self._owed: Final[dict[Participant, Owed]] = {}
        self._met: Final[set[Participant]] = set()  # who has been greeted, and did not refuse
        for participant in self.participants:
            participant.restarted = restarted

    def at(self, url: str) -> Participant | None:
        """The participant at a base URL; None where that server takes no part."""
        return self._addresses.get(address_of(url))

    async def places(self) -> dict[Participant, Seen | None]:
        """Where everybody keeps checkpoints; nobody obeys us for it. Raises ControlError, CheckpointError."""
        with trio.move_on_after(STATUS_PATIENCE_S):
            return await each(self.participants, lambda one: one.place())
        raise CheckpointError(
            f"some participant did not say within {STATUS_PATIENCE_S:g} s where it keeps checkpoints"
        )

    async def hello(self) -> None:
        """The run's first call: whatever an earlier collector left open ends.

        An environment is at work as long as any row is, what stands behind it is idle between two requests
        and would be taken from a run that goes on: so nobody else hears of us before every environment has
        agreed. Raises RefusedError where a participant works for somebody else, ControlError where one fails.
        """
        hello = Hello(**self._common())  # operation 0
        environments = [one for one in self.participants if one.kind == "environment"]
        others = [one for one in self.participants if one.kind != "environment"]
        try:
            with trio.move_on_after(HELLO_PATIENCE_S):
                for some in (environments, others):
                    await each(some, lambda one: self._greet(one, hello))
                return
        except ControlError as error:
            if error.code in _SOMEBODY_ELSE:
                raise RefusedError(f"{error}; wait for the other run's end or stop it") from error
            raise
        raise CheckpointError(f"some participant did not greet back within {HELLO_PATIENCE_S:g} s")

    async def _greet(self, participant: Participant, hello: Hello) -> None:
        self._met.add(participant)  # also where no answer comes: it may have heard
        try:
            await participant.post("hello", hello, Greeted)
        except ControlError as error:
            if error.code in _SOMEBODY_ELSE:
                self._met.discard(participant)
            raise

    async def statuses(self) -> dict[Participant, Status]:
        """Where everybody stands. Raises ControlError, CheckpointError where somebody does not say."""
        with trio.move_on_after(STATUS_PATIENCE_S):
            return await each(self.participants, lambda one: one.status())
        raise CheckpointError(f"some participant did not say within {STATUS_PATIENCE_S:g} s where it stands")

    def cutting(self) -> Cutting:
        """A new operation, to take a checkpoint."""
        return Cutting(self.participants, self._next())

    def installing(self) -> Installing:
        """A new operation, to restore one."""
        return Installing(self.participants, self._next())

    async def end(self, operation: Operation, deadline: float) -> bool:
        """Resume all; whether all have answered. Who has not, soon after the deadline, is owed the resume."""
        owed = await operation.resume(deadline)
        self._owed.clear()  # a newer operation's resume ends older ones too
        self._owed.update(owed)
        return not owed

    @property
    def owes(self) -> bool:
        """Whether a resume was not answered and has to be repeated."""
        now = trio.current_time()
        for participant in [one for one, owed in self._owed.items() if owed.until <= now]:
            del self._owed[participant]  # its lease is over: it has opened by itself
        return bool(self._owed)

    async def settle_owed(self) -> None:
        """Repeat the resumes that were not answered, once, for at most 10 s."""
        if not self.owes:
            return

        async def one(participant: Participant) -> None:
            if await is_resumed(participant, self._owed[participant].resume):
                del self._owed[participant]

        with trio.move_on_after(RESUME_PATIENCE_S):
            await settle(tuple(self._owed), one)

    async def retire(self, episodes: Sequence[EpisodeId]) -> int:
        """Stop, free and refuse these attempts everywhere, at most 1,024; as which operation.

        Raises CheckpointError. When it raises, some participants may have retired them; it is to be repeated.
        """
        assert 0 < len(episodes) <= MOST_AT_ONCE
        call = Retire(**self._next(), episodes=tuple(episodes))
        keys = {episode.capture_key for episode in episodes}

        async def one(participant: Participant) -> None:
            reply = await participant.post("retire", call, Retired)
            if missing := keys.difference(reply.retired):  # also an answer to another retire
                raise participant.fault(f"did not say that {min(missing)} is retired")

        with trio.move_on_after(RETIRE_PATIENCE_S) as patience, span("retire", attempts=len(episodes)):
            for kinds in _RETIRING:
                members = [one for one in self.participants if one.kind in kinds]
                await each(members, one)
        if patience.cancelled_caught:
            raise CheckpointError(f"{len(episodes)} rows are not retired after {RETIRE_PATIENCE_S:g} s")
        return call.operation

    async def goodbye(self, rollout_ids: Sequence[str]) -> None:
        """The run has ended: refusals and left-overs of these rollouts go. Raises ControlError.

        The caller's scope is the only deadline.
        """
        for start in range(0, len(rollout_ids) or 1, MOST_AT_ONCE):
            some = tuple(rollout_ids[start : start + MOST_AT_ONCE])
            is_last = start + MOST_AT_ONCE >= len(rollout_ids)
            await self._forget(Forget(**self._next(), rollout_ids=some, goodbye=is_last))

    async def leave(self) -> None:
        """The run ends without a checkpoint that covers it: open everybody and say goodbye, within 2 s.

        Everybody who obeys: to the others it would be the first word of a collector that takes them over. Who
        is not reached opens when its lease ends. Raises nothing.
        """
        resume = Resume(**self._next())
        goodbye = Forget(**self._next(), rollout_ids=(), goodbye=True)

        async def one(participant: Participant) -> None:
            await participant.post("resume", resume, Resumed)
            await participant.post("forget", goodbye, Forgotten)

        with trio.move_on_after(LAST_WORDS_S, shield=True):
            await settle(tuple(self._met), one)

    async def _forget(self, call: Forget) -> None:
        await each(self.participants, lambda one: one.post("forget", call, Forgotten))

    def _next(self) -> Common:
        self._operation += 1
        return self._common()

    def _common(self) -> Common:
        return Common(
            run=self._run,
            epoch=self.epoch,
            operation=self._operation,
            budget_ms=0,
            lease_ms=self._lease_ms,
        )
