"""3, 4 and 6: what LATEST names, what is there beside it, and which rollouts are kept."""

from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from fuzz.invariants import broken, holds
from fuzz.simulation.reading import bytes_in, latest_collection, records_in, sequence_of_whole
from fuzz.simulation.story import Life
from triocollect.protocol.manifests import CheckpointOutcome


@define
class Kept:
    """In a checkpoint directory, over all lives. What is asked of a run at work is told by `_holds`."""

    _root: Path
    _holds: Callable[[int, object, str], None]
    _published: set[str] = field(factory=set)  # ids
    _sequence: int = 0
    _life: Life = field(factory=Life)
    _may_be_gone: bool = False  # a fresh run forgets it
    _harmed: bytes | None = None  # LATEST when something was damaged
    _unpruned: bool = False  # the last publish of this life
    _before: bytes | None = None  # LATEST when the checkpoint began
    _done: set[str] = field(factory=set)  # rollouts with a result by then

    @property
    def is_harmed(self) -> bool:
        """Something outside has damaged it, and nothing was published since."""
        return self._harmed is not None

    def harmed(self) -> None:
        """Something outside has damaged it just now."""
        self._harmed = self._latest() or b""

    def begin(self, life: Life) -> None:
        """Another life."""
        self._life, self._unpruned = life, False
        self._may_be_gone |= life.fresh

    def begins(self, done: set[str]) -> None:
        """A checkpoint, when these rollouts had a result."""
        self._holds(4, not self._unpruned, "the run went on from a publish, and pruned nothing")
        self._before, self._done = self._latest(), done

    def ends(self, outcome: CheckpointOutcome, installed: set[str]) -> None:
        """It is published, or not, while these rollouts were restored and waited to be sent."""
        if not outcome.published:
            self._holds(3, self._latest() == self._before, "LATEST moved, and nothing was published")
            return
        self._published.add(outcome.checkpoint_id)
        self._check_continued(installed if not self._life.falls else set())
        self._check_folders(pruned="prune" in outcome.phases_s)

    def asker_hears(self, outcome: CheckpointOutcome) -> None:
        """What a program that asked for a checkpoint is told."""
        told = not outcome.published or outcome.checkpoint_id in self._published
        self._holds(3, told, f"{outcome.checkpoint_id} was never published")

    def end(self, *, may_be_unpruned: bool) -> None:
        """Of a life. LATEST names something whole, and never goes back. Raises BrokenError."""
        pruned = may_be_unpruned or not self._unpruned
        holds(4, pruned, "nobody told it to stop, and it pruned nothing")
        if not (self._root / "LATEST").exists():
            holds(3, self._may_be_gone or not self._sequence, "LATEST is gone")
            return
        if self._latest() == self._harmed:
            return
        self._harmed = None
        try:
            sequence = sequence_of_whole(self._root)
        except (OSError, ValueError, KeyError) as error:
            broken(3, f"LATEST leads to what cannot be read: {error!r}")
        holds(3, sequence >= self._sequence, "LATEST went back")
        self._sequence, self._may_be_gone = sequence, self._life.fresh

    def _latest(self) -> bytes:
        return bytes_in(self._root / "LATEST")

    def _check_continued(self, installed: set[str]) -> None:
        folder, collection = latest_collection(self._root)
        self._sequence = max(self._sequence, collection["sequence"])  # from now on, whatever dies
        boundaries = records_in(folder / "participants" / "environment" / "environment")
        named = {one["rollout_id"] for one in (*collection["continued"], *collection["restarted"])}
        self._holds(6, installed <= named, f"{installed - named} are restored, and in no checkpoint since")
        for one in collection["continued"]:
            exported = (one["rollout_id"], one["attempt"]) in boundaries
            self._holds(6, exported, f"{one} is continued, and no environment exported it")
            self._holds(6, one["rollout_id"] not in self._done, f"{one} is continued, and had its result")

    def _check_folders(self, *, pruned: bool) -> None:
        """Only a stop, also one that met this checkpoint, leaves its prune to the next life."""
        self._unpruned = not pruned
        if not pruned:
            return
        names = sorted(path.name for path in self._root.iterdir())
        folders = [name for name in names if name.startswith("ckpt-")]
        drafts = [name for name in names if name.endswith(".tmp") or name.startswith(".trash")]
        self._holds(4, len(folders) <= 2 and not drafts, f"{folders + drafts} after a publish")
