"""What a checkpoint directory holds. Pure. No path in it is absolute, so a directory can be moved.

LATEST                                     Latest, one line; moved last
ckpt-<sequence>/collection.json            Collection
ckpt-<sequence>/participants/<kind>/<instance>/manifest.json, records-<sha256>.jsonl
staging/<sha256>.jsonl                     cuts of generations, StagedCut (`inference.py`)
collector.lock, dispatched.jsonl, outcomes.jsonl
"""

from typing import Final

import msgspec

from triocollect.protocol.ids import Attempt, EpisodeId
from triocollect.protocol.messages import Blocker, Kind

LOCK: Final = "collector.lock"
MOST_LOCK_BYTES: Final = 1 << 16
MOST_COLLECTION_BYTES: Final = 1 << 30
MOST_MANIFEST_BYTES: Final = 1 << 20
MOST_RECORDS_BYTES: Final = 16 << 30  # of one participant


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a participant's records; keys of its kind stand beside `state`."""

    rollout_id: str
    attempt: int
    kind: Kind
    state: msgspec.Raw


class RecordsRef(msgspec.Struct, frozen=True):
    """A records file, named by its own digest (hex sha256)."""

    path: str
    sha256: str
    record_count: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json` of one participant: created, never replaced."""

    schema: int = 1
    kind: Kind
    instance: str
    boot: str
    checkpoint_id: str
    records: RecordsRef


class ParticipantRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a participant's manifest lies, relative to the checkpoint's folder.

    `kept`: the packs of staged cuts that its records refer to, where there are any.
    """

    kind: Kind
    instance: str
    manifest: str
    sha256: str
    record_count: int
    kept: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Restarted(EpisodeId, frozen=True, kw_only=True):
    """An episode in flight that starts from its input after a crash, and why."""

    reason: str


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """`collection.json`. What finished after it was written is subtracted at a restore: the output wins."""

    schema: int = 1
    checkpoint_id: str
    sequence: int
    epoch: int
    run: str
    created: str  # UTC, ISO 8601
    input_sha256: str
    continued: tuple[EpisodeId, ...]
    restarted: tuple[Restarted, ...]
    participants: tuple[ParticipantRef, ...]
    output: str | msgspec.UnsetType = msgspec.UNSET  # the run (`RunFile`) of the output whose rows these are


class Latest(msgspec.Struct, frozen=True):
    """LATEST: which checkpoint counts. `sha256` is that of its collection.json."""

    checkpoint_id: str
    sequence: int
    sha256: str


class DispatchHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """First line of `dispatched.jsonl`: no attempt above `reserved` was ever sent.

    `floor`: any rollout may have been sent at attempts below it, also one that no line names. `start`: no
    rollout starts below it, for other outputs have used attempts that no line names any more. `used`: the
    highest attempt that any run of any output had used when this log began (-1: none); an output that comes
    later starts above it, though no line may name it any more. `boot`: which boot of which machine, and which
    mount of the file system, has the lines that are not durable yet; none, when the writer has ended and all
    are. `output`: the run (`RunFile`) whose output has a line of each rollout left out here; none: not
    known.
    """

    run: str
    epoch: int
    sequence: int
    reserved: int
    floor: int = 0
    start: int = 0
    used: int = -1
    boot: str | None = None
    output: str | None = None


class Dispatched(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every other line of `dispatched.jsonl`: this attempt was sent or installed.

    `answered`: it has ended by an answer, which no other file says. `output`: the run of the output that sent
    it, where that is not the header's: several may share the directory.
    """

    rollout_id: str = msgspec.field(name="r")
    attempt: Attempt = msgspec.field(name="a")
    answered: bool = False
    output: str | None = msgspec.field(name="o", default=None)


class LockFile(msgspec.Struct, frozen=True, kw_only=True):
    """`collector.lock`: who collects here; run and epoch outlive every collector."""

    run: str
    epoch: int
    pid: int
    host: str
    started: str  # UTC, ISO 8601


class CheckpointOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `outcomes.jsonl`: how one try ended. Durations in seconds by phase, `bytes` of records.

    `undelivered`: policy calls under way at the cut, which a continuation makes again; not there where no
    model server counts them. Of these `cut` are kept, with `kept_tokens`, and `not_cut` are generated again
    from their start. `restarted_why`: so many of the restarted rows, by reason. `blockers`: what kept
    participants from being ready, where that was the reason, the first of `blocker_count`. `ended`: UTC, ISO
    8601. `lost_s`: seconds of work of the restarted rows. `began`: seconds of the host's monotonic clock.
    `epoch`: the collector's that tried. `stopped`: nothing was sent after it, as the run was to end.
    """

    operation: int
    checkpoint_id: str
    published: bool
    reason: str | None = None  # why it was not
    continued: int = 0
    restarted: int = 0
    work_s: float = 0.0
    bytes: int = 0
    phases_s: dict[str, float] = {}
    undelivered: int | msgspec.UnsetType = msgspec.UNSET
    cut: int | msgspec.UnsetType = msgspec.UNSET
    kept_tokens: int | msgspec.UnsetType = msgspec.UNSET
    not_cut: int | msgspec.UnsetType = msgspec.UNSET
    restarted_why: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    blockers: tuple[Blocker, ...] | msgspec.UnsetType = msgspec.UNSET
    blocker_count: int | msgspec.UnsetType = msgspec.UNSET
    ended: str | msgspec.UnsetType = msgspec.UNSET
    lost_s: float | msgspec.UnsetType = msgspec.UNSET
    began: float | msgspec.UnsetType = msgspec.UNSET
    epoch: int | msgspec.UnsetType = msgspec.UNSET
    stopped: bool | msgspec.UnsetType = msgspec.UNSET
