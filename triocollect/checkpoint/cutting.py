"""The calls of a checkpoint: prepare, commit, and the question whether the cut held."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import trio
from msgspec import UNSET, UnsetType

from triocollect.checkpoint.operation import CLOSING, Common, Operation
from triocollect.checkpoint.participants import Participant, each, settle
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Blocker, Commit, Committed, Prepare, Prepared, PrepareReport

_PAUSE_S: Final = 0.2  # a participant that answers "preparing" without waiting is not asked in a loop
_LATE_QUESTION_S: Final = 1.0
_NAMED: Final = 5  # blockers of one participant that a sentence names


class Cutting(Operation):
    """A checkpoint as the participants go through it. Every wait is the caller's to bound."""

    def __init__(self, participants: Sequence[Participant], common: Common) -> None:
        super().__init__(participants, common)
        self._reports: Final[dict[Participant, PrepareReport]] = {}
        self._committed: Final[dict[Participant, Committed]] = {}
        self._asked: Final[list[Participant]] = []

    async def prepare(self) -> None:
        """Close all; each kind when all of the one before are ready. Raises ControlError.

        When it is cancelled, `why_not_ready` and `blockers` say what it was waiting for.
        """
        for kind in CLOSING:
            self._asked.extend(self.of(kind))
            await each(self.of(kind), self._prepare)

    async def _prepare(self, participant: Participant) -> None:
        prepare = Prepare(**self.common)
        while True:
            reply = await participant.post("prepare", prepare, Prepared)
            self._reports[participant] = reply.report
            if reply.phase == "prepared":
                self.boots[participant] = reply.boot
                return
            if reply.phase != "preparing":
                raise participant.fault(f"is {reply.phase}, not preparing")
            await trio.sleep(_PAUSE_S)

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """What those that are not ready have named."""
        return tuple(
            blocker
            for participant in self._unready()
            if participant in self._reports
            for blocker in self._reports[participant].blockers
        )

    @property
    def blocker_count(self) -> int:
        """How many there are, also of those that a report has no room to name."""
        reports = [self._reports[one] for one in self._unready() if one in self._reports]
        return sum(max(report.blocker_count, len(report.blockers)) for report in reports)

    async def ask_unready(self) -> None:
        """Hear what keeps those that have not answered yet: their prepare was given up before they could."""

        async def one(participant: Participant) -> None:
            report = (await participant.status()).report
            if report is not None:
                self._reports[participant] = report

        with trio.move_on_after(_LATE_QUESTION_S):
            await settle([one for one in self._unready() if one not in self._reports], one)

    def why_not_ready(self) -> str:
        """Who is waited for, and for what, in a sentence."""
        return "; ".join(
            f"{participant} waits for {_named(self._reports[participant])}"
            if participant in self._reports
            else f"{participant} does not answer"
            for participant in self._unready()
        )

    def _unready(self) -> Iterator[Participant]:
        return (participant for participant in self._asked if participant not in self.boots)

    def restarts(self) -> dict[str, str]:
        """Capture keys of the episodes that somebody cannot capture, and who."""
        return {
            key: f"{participant} cannot capture it"
            for participant, report in self._reports.items()
            for key in report.restarts
        }

    def counts(self) -> dict[str, int]:
        """What the participants count, at their commits where they were reached, added up by name.

        `undelivered`: policy calls under way and answers held back, as far as model servers count them. Of
        these `cut` and `held` are kept with `kept_tokens`, the others are `not_cut`.
        """
        whole = Counter[str]()
        for participant, report in self._reports.items():
            committed = self._committed.get(participant)
            late = None if committed is None else committed.counts
            whole.update({**report.counts, **late} if isinstance(late, dict) else report.counts)
        return dict(whole)

    def counted(self, *names: str) -> int | UnsetType:
        """The sum of these counts; UNSET where nobody counts that."""
        told = self.counts()
        return sum(told[name] for name in names if name in told) if told.keys() & names else UNSET

    async def commit(
        self, *, checkpoint_id: str, directory: str, scope: Sequence[EpisodeId], stop: bool
    ) -> dict[Participant, Committed]:
        """Have the scope exported and written below `directory`, by all at once. Raises ControlError."""
        commit = Commit(
            **self.common, checkpoint_id=checkpoint_id, directory=directory, scope=tuple(scope), stop=stop
        )

        async def one(participant: Participant) -> Committed:
            reply = await participant.post("commit", commit, Committed)
            self.check(participant, reply.boot, reply.phase, "committed")
            place = f"{directory}/participants/{participant.kind}/{participant.instance}/manifest.json"
            if reply.manifest.path != place:  # a restore looks for it there
                raise participant.fault(f"wrote {reply.manifest.path!r}, not {place}")
            if (exported := len(set(reply.exported))) > (records := reply.manifest.record_count):
                raise participant.fault(f"claims {exported} episodes exported in {records} records")
            self._committed[participant] = reply
            return reply

        return await each(self.participants, one)

    async def confirm(self) -> None:
        """Ask all once more whether they are committed still, by this operation. Raises ControlError.

        Then all were closed from the first export until after the last, so the cut is one instant; a lease
        that ends later harms nothing.
        """

        async def one(participant: Participant) -> None:
            status = await participant.status()
            self.check(participant, status.boot, status.phase, "committed")
            if (status.epoch, status.operation) != (self.common["epoch"], self.number):
                raise participant.fault(
                    f"is committed by operation {status.operation} of epoch {status.epoch}, "
                    f"not by {self.number} of {self.common['epoch']}"
                )

        await each(self.participants, one)


def _named(report: PrepareReport) -> str:
    named = ", ".join(f"{one.key or 'a request'} ({one.why})" for one in report.blockers[:_NAMED])
    more = max(report.blocker_count, len(report.blockers)) - min(_NAMED, len(report.blockers))
    if not named:
        return f"{more} episodes" if more else "something that it does not name"
    return f"{named} and {more} more" if more else named
