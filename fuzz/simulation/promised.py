"""What a run has promised to keep: lines of the output, and rollouts that a checkpoint continues."""

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from fuzz.invariants import holds
from fuzz.simulation.reading import answered_in, bytes_in, latest_collection, lines_in, rollout_of
from fuzz.simulation.sends import Send
from fuzz.simulation.story import Life

Sent = Mapping[str, list[Send]]


@define
class Promised:
    """Over all lives on a folder."""

    folder: Path
    _written: bytes = b""  # there at the end of the last life
    _synced: bytes = b""  # that a power cut leaves: written before the last publish, or the last end of a run
    _at_the_cut: bytes = b""
    _to_continue: frozenset[str] = field(factory=frozenset)
    _answered: set[tuple[str, int]] = field(factory=set)
    unwritten: set[tuple[str, int]] = field(factory=set)  # answered, as only the log of a life says
    _sends_before: dict[str, int] = field(factory=dict)  # by rollout

    def begin(self, life: Life, sent: Sent, *, anew: bool, harmed: bool) -> None:
        """A life that nothing disturbs, on servers that are `anew`, continues all that is kept."""
        if life.fresh:
            self._written = self._synced = b""
        calm = anew and not (harmed or life.planned or life.fresh or life.limit)
        self._sends_before = {rollout_id: len(sends) for rollout_id, sends in sent.items()}
        self._to_continue = self._kept() if calm else frozenset()

    def _kept(self) -> frozenset[str]:
        """Rollouts in LATEST without a last word since."""
        checkpoints = self.folder / "checkpoints"
        if not (checkpoints / "LATEST").exists():
            return frozenset()
        _, collection = latest_collection(checkpoints)
        continued = {one["rollout_id"]: one["attempt"] for one in collection["continued"]}
        done = {rollout_of(line) for line in self._lines("out.jsonl")}
        answered = self._answered | answered_in(self._lines("out_failures.jsonl"))
        over = {row for row, attempt in answered if attempt >= continued.get(row, attempt + 1)}
        return frozenset(continued.keys() - done - over)

    def answers(self, rollout_id: str, attempt: int) -> None:
        """Somebody ended it, also without a result: it begins anew."""
        self._answered.add((rollout_id, attempt))

    def cuts(self) -> None:
        """A checkpoint begins."""
        self._at_the_cut = self._output()

    def publishes(self) -> None:
        """It is there: what it leaves out for good has to be, too."""
        self._synced = self._at_the_cut

    def loses_power(self) -> None:
        """What nobody synced may be gone."""
        self._written = self._synced

    def end(self, report: object) -> None:
        """Of a life; with a report it ended by itself."""
        output = self._output()
        holds(1, output.startswith(self._written), "what was written is gone")
        self._written = output
        log = self._lines("checkpoints/dispatched.jsonl")
        self.unwritten |= {(line["r"], line["a"]) for line in log if line.get("answered")}
        if report is not None:
            self._synced = output

    def check_continued(self, sent: Sent) -> None:
        """10: what LATEST keeps goes on from there, where nothing disturbs it."""
        for rollout_id in self._to_continue:
            new = sent[rollout_id][self._sends_before.get(rollout_id, 0) :]
            anew = new and not new[0].goes_on
            holds(10, not anew, f"{rollout_id} is kept, and began anew")

    def _output(self) -> bytes:
        """Its whole lines; half of one is moved away by the next life."""
        data = bytes_in(self.folder / "out.jsonl")
        return data[: data.rfind(b"\n") + 1]

    def _lines(self, name: str):
        return lines_in(self.folder / name)
