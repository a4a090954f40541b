"""The workers of one participant, as its coordinator knows them. Pure.

Which report counts, what blocks a cut, whose parts went with a worker that was lost.
"""

from collections.abc import Iterable, Iterator
from typing import Final, final

from triocollect.participant.workers.frames import Report
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Blocker, PrepareReport


def named(worker: int) -> str:
    """What a worker is called in reports and messages."""
    return f"worker {worker}"


@final
class Crew:
    """`size` workers, numbered from 1. All of them are expected; none is here at first."""

    def __init__(self, size: int) -> None:
        self.size: Final = size
        self.generation = 0  # raised at each close
        self.closed = False
        self.served = False  # work was admitted since the start, also on a worker that is gone
        self._here: Final[dict[int, Report | None]] = {}  # with the latest report, if there was one
        self._left_a_gap: Final[set[int]] = set()  # lost since the close
        self._parts: Final[dict[int, dict[str, int]]] = {number: {} for number in self.numbers}
        self._lost: Final[dict[int, dict[str, int]]] = {number: {} for number in self.numbers}

    @property
    def numbers(self) -> range:
        """Of all workers that there are to be."""
        return range(1, self.size + 1)

    @property
    def missing(self) -> list[int]:
        """Those that are not here."""
        return [number for number in self.numbers if number not in self._here]

    @property
    def torn(self) -> bool:
        """Whether one was lost since the close: until the opening no other can stand for it."""
        return bool(self._left_a_gap)

    def close(self) -> None:
        """Every worker has to report anew."""
        self.generation += 1
        self.closed = True
        self._left_a_gap.clear()

    def open(self) -> None:
        """Nothing is asked of anybody."""
        self.closed = False
        self._left_a_gap.clear()

    # -- what workers say -----------------------------------------------------------------------------------

    def joined(self, worker: int) -> None:
        """It is here, and has said nothing yet."""
        self._here[worker] = None

    def reported(self, worker: int, report: Report) -> None:
        """Keep the report, unless the worker is gone or has said something later."""
        if worker not in self._here:
            return
        latest = self._here[worker]
        if latest is None or latest.sequence < report.sequence:
            self._here[worker] = report
            self.served = self.served or report.served

    def noted(self, worker: int, episodes: Iterable[EpisodeId]) -> None:
        """The worker is about to have a part of each of these."""
        parts = self._parts[worker]
        for episode in episodes:
            parts[episode.rollout_id] = max(episode.attempt, parts.get(episode.rollout_id, 0))

    def freed(self, worker: int, episodes: Iterable[EpisodeId]) -> None:
        """The worker keeps nothing of these any more."""
        parts = self._parts[worker]
        for episode in episodes:
            if parts.get(episode.rollout_id) == episode.attempt:
                del parts[episode.rollout_id]

    def lost(self, worker: int) -> None:
        """It is gone, and every part it had with it."""
        del self._here[worker]
        if self.closed:
            self._left_a_gap.add(worker)
        gone = self._lost[worker]
        for rollout_id, attempt in self._parts[worker].items():
            gone[rollout_id] = max(attempt, gone.get(rollout_id, 0))
        self._parts[worker].clear()

    # -- what becomes of episodes ---------------------------------------------------------------------------

    def retired(self, episodes: Iterable[EpisodeId]) -> None:
        """These attempts and all before them are over, so nothing of them can be missing."""
        for episode in episodes:
            for parts in self._all_parts():
                if parts.get(episode.rollout_id, episode.attempt + 1) <= episode.attempt:
                    del parts[episode.rollout_id]

    def forgotten(self, rollout_ids: Iterable[str]) -> None:
        """These rollouts are finished."""
        for rollout_id in rollout_ids:
            for parts in self._all_parts():
                parts.pop(rollout_id, None)

    def cleared(self) -> None:
        """Nothing of any episode is left."""
        for parts in self._all_parts():
            parts.clear()

    def lost_on(self, worker: int) -> dict[str, int]:
        """By rollout, up to which attempt its parts went with an earlier worker of this number."""
        return dict(self._lost[worker])

    # -- what comes of it -----------------------------------------------------------------------------------

    def report(self) -> PrepareReport:
        """How far all of them are together. What belongs to a restart never blocks."""
        current = [report for report in self._here.values() if report is not None]
        restarts = {key for report in current for key in report.restarts}
        restarts.update(episode.capture_key for lost in self._lost.values() for episode in _episodes(lost))
        absent = [Blocker(named(number), why) for number, why in self._absent()]
        blockers = sorted(
            (one for report in self._reports() for one in report.blockers if one.key not in restarts),
            key=lambda one: one.key,
        )
        unnamed = sum(report.blocker_count - len(report.blockers) for report in self._reports())
        counts: dict[str, int] = {}
        for report in current:
            for name, count in report.counts.items():
                counts[name] = counts.get(name, 0) + count
        return PrepareReport(
            blockers=(*absent, *blockers),
            blocker_count=len(absent) + len(blockers) + unnamed,
            restarts=tuple(sorted(restarts)),
            counts=counts,
        )

    def faults(self) -> list[str]:
        """What went wrong on workers when they closed."""
        return [
            f"{named(number)}: {report.fault}"
            for number, report in self._here.items()
            if report is not None and report.generation == self.generation and report.fault is not None
        ]

    def gap(self) -> int | None:
        """A worker whose state is not there as it was at the close, if there is one."""
        return next((number for number, _ in self._absent()), None)

    def live(self) -> bool:
        """Whether work is under way anywhere."""
        return any(report is not None and report.live for report in self._here.values())

    def restored_pending(self) -> int:
        """How many installed episodes nobody has claimed yet."""
        return sum(report.restored_pending for report in self._here.values() if report is not None)

    def _all_parts(self) -> Iterator[dict[str, int]]:
        yield from self._parts.values()
        yield from self._lost.values()

    def _reports(self) -> Iterator[Report]:
        """Those of the present generation."""
        for report in self._here.values():
            if report is not None and report.generation == self.generation:
                yield report

    def _absent(self) -> Iterator[tuple[int, str]]:
        """Who cannot be counted on in this generation, and why."""
        for number in self.numbers:
            if number in self._left_a_gap:
                yield number, "it was lost while closed"
            elif number not in self._here:
                yield number, "it is not there"
            elif (report := self._here[number]) is None or report.generation != self.generation:
                yield number, "it has not reported since the close"


def _episodes(parts: dict[str, int]) -> Iterator[EpisodeId]:
    return (EpisodeId(rollout_id, attempt) for rollout_id, attempt in parts.items())
