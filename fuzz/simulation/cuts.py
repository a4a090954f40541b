"""6, 10 and 13 of each checkpoint, by what goes over the wire while it is taken, and by its records."""

from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import define, field

from fuzz.boundaries import read_checkpoint
from fuzz.simulation.reading import latest_collection, records_in
from fuzz.simulation.request import Request

Episode = tuple[str, int]
Holds = Callable[[int, object, str], None]

_SEEDED, _OPENED, _JUDGED = 1, 2, 4  # the next step of an episode that has got so far


@define
class Cuts:
    """The one that is being taken. `mixed`: every other row has a session that nobody can capture."""

    _root: Path
    _mixed: bool
    _holds: Holds
    _over: frozenset[Episode] = frozenset()  # answered when everybody was prepared
    _landed: set[Episode] = field(factory=set)  # since it began
    _ended: frozenset[Episode] = frozenset()  # of these, when it was decided what is continued
    _at_work: frozenset[Episode] = frozenset()  # and when what the collector does in a thread was begun
    _committed: dict[str, object] = field(
        factory=dict
    )  # the process that did, by name, and when it had closed
    _opened: list[str] = field(factory=list)  # which of them were open, or gone, when the last one did

    def begins(self) -> None:
        """Another checkpoint."""
        self._over = self._ended = frozenset()
        self._landed.clear()
        self._committed.clear()
        self._opened.clear()

    def lands(self, rollout_id: str, attempt: int) -> None:
        """A row is not in flight any more: it failed, or nobody has answered it."""
        self._landed.add((rollout_id, attempt))

    @property
    def landed(self) -> frozenset[Episode]:
        """Which are not."""
        return frozenset(self._landed)

    def works(self, landed: frozenset[Episode]) -> None:
        """What the collector does in a thread is done now, as of the time when these had landed."""
        self._at_work = landed

    def changes(self, name: str) -> None:
        """A file, by whomever."""
        if name.endswith("collection.json.tmp"):
            self._ended = self._at_work

    def commits(self, scope: Iterable[dict], continued: frozenset[Episode]) -> None:
        """A commit arrives. What goes on from an earlier boundary may have come back to it."""
        named = {(one["rollout_id"], one["attempt"]) for one in scope}
        self._landed -= continued
        over = named & self._over
        self._holds(6, not over, f"{sorted(over)} are in the scope, and were answered before it was taken")

    def answers(self, request: Request, answered: Callable[[], set[Episode]], processes: dict) -> None:
        """A participant does what it was asked."""
        if request.kind == "prepare" and request.answer["phase"] == "prepared":
            self._over = frozenset(answered())
            probe = processes[request.host.replace("-", "_")].probe
            told = f"{request.host} says that it is prepared, and is open"
            self._holds(13, probe.is_shut or not probe.is_to_be_closed, told)
        elif request.kind == "commit":
            name = request.host.replace("-", "_")
            if name not in self._committed:
                self._committed[name] = self._closed(processes[name])
                self._opened = [one for one in self._committed if not self._stands(one, processes)]

    def _stands(self, name: str, processes: dict) -> bool:
        process = processes[name]
        return self._closed(process) == self._committed[name] and process.probe.is_held

    def _closed(self, process) -> object:
        """What a worker had that is lost after that is written."""
        return process, process.probe.closing

    def publishes(self, *, calm: bool) -> None:
        """LATEST has moved. `calm`: nothing has broken in this life."""
        self._holds(13, not self._opened, f"{self._opened} were open, or gone, before the last one committed")
        faults: list[str] = []
        read_checkpoint(self._root, faults)
        self._holds(13, not faults, "; ".join(faults))
        folder, collection = latest_collection(self._root)
        kept = {
            kind: records_in(folder / "participants" / kind / name)
            for kind, name in (
                ("environment", "environment"),
                ("agent", "agent"),
                ("resources", "counter"),
                ("model", "policy_model"),
            )
        }
        for one in collection["continued"]:
            episode = one["rollout_id"], one["attempt"]
            self._holds(
                6, episode not in self._ended, f"{episode} is continued, and was not in flight any more"
            )
            self._check_instant(episode, kept, calm=calm)

    def _check_instant(self, episode: Episode, kept: dict, *, calm: bool) -> None:
        if (boundary := kept["environment"].get(episode)) is None:
            return  # told by its own number
        step = boundary["step"]
        captured = not (self._mixed and int(episode[0].partition("-")[0]) % 2)
        session, state = kept["agent"].get(episode), kept["resources"].get(episode)
        if _SEEDED <= step < _JUDGED and captured:
            self._holds(13, state is not None, f"{episode} stands before step {step}, and has no session")
        if _OPENED <= step < _JUDGED:
            self._holds(13, session is not None, f"{episode} stands before step {step}, unknown to the agent")
        rows = kept["model"].get(episode, {"rows": ()})["rows"]
        parents = [row["parent"] for row in rows]
        told = f"{episode} has more than one answer to what it knew: {rows}"
        self._holds(11, len(parents) == len(set(parents)), told)
        if not step and calm:
            told = f"{episode} is to be seeded, and was: {state}"
            self._holds(12, state is None, told)


@define
class Installs:
    """10: an attempt that a restore has tried is played from there by that restore, or never.

    13: none goes on where it is known that a part of it went with a process.

    `waiting`: attempts of this life by rollout, restored, and neither sent nor retired since.
    """

    _holds: Holds
    waiting: dict[str, int] = field(factory=dict)
    _tried: dict[str, tuple[int, object]] = field(factory=dict)  # by rollout: the attempt, and who tried
    _parts: dict[str, object] = field(factory=dict)  # the processes that have installed it, by name
    _told: dict[str, object] = field(factory=dict)  # those that have answered last
    _torn: str = ""  # by whose death, where the collector has heard of it

    def begin(self) -> None:
        """Another life."""
        for memory in (self.waiting, self._parts, self._told):
            memory.clear()
        self._torn = ""

    def restores(self, scope: Iterable[dict], operation: object, answered: set[Episode]) -> None:
        """A restore arrives. What was `answered` since the cut has ended, and nothing goes on from before."""
        for one in scope:
            becomes, rollout_id = one["becomes"], one["rollout_id"]
            since = [attempt for row, attempt in answered if row == rollout_id and attempt >= one["attempt"]]
            told = f"{rollout_id} goes on from {one['attempt']}, and {since} were answered"
            self._holds(13, not since, told)
            before, by = self._tried.get(rollout_id, (-1, operation))
            again = by != operation and becomes <= before
            self._holds(10, not again, f"{rollout_id} is restored as {becomes}, and {before} was tried")
            self._tried[rollout_id] = becomes, operation

    def answers(self, name: str, process: object, *, installs: bool) -> None:
        """A participant answers a control call."""
        self._told[name] = process
        if installs:
            self._parts[name], self._torn = process, ""

    def hears(self) -> None:
        """All that was answered by now has come to the collector."""
        self._torn = self._torn or ", ".join(
            name for name, process in self._parts.items() if self._told[name] is not process
        )

    def goes_on(self, rollout_id: str) -> None:
        """A row that waited sets out."""
        told = f"{rollout_id} goes on from a checkpoint, and its part went with {self._torn}"
        self._holds(13, not (self._torn and rollout_id in self.waiting), told)
        self.waiting.pop(rollout_id, None)

    def succeeds(self, scope: Iterable[dict]) -> None:
        """A restore."""
        self.waiting.update({one["rollout_id"]: one["becomes"] for one in scope})

    def retires(self, rollout_id: str, attempt: int) -> None:
        """What was restored, too."""
        if self.waiting.get(rollout_id, attempt + 1) <= attempt:
            del self.waiting[rollout_id]

    def sends(self, rollout_id: str, attempt: int, *, continued: bool) -> None:
        """A row arrives."""
        tried, _ = self._tried.get(rollout_id, (-1, None))
        told = f"{rollout_id} is sent as {attempt}, and a restore has tried {tried}"
        self._holds(10, attempt > tried or (continued and attempt == tried), told)
