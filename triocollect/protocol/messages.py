"""The control plane's messages, under `/checkpoint/v1`. Pure.

Readers ignore fields they do not know and check those they need. Durations are milliseconds; no time of day
is on the wire, so clocks may differ. Renaming a class changes no byte.
"""

from typing import Literal, TypeAlias

import msgspec

from triocollect.protocol.ids import Attempt, EpisodeId

PREFIX = "/checkpoint/v1"
VERSION = 1
MOST_COUNTED = 1 << 53  # epochs and operations are below: what every reader of JSON has exactly

Kind: TypeAlias = Literal["environment", "model", "agent", "resources"]
Mode: TypeAlias = Literal["exported", "stateless", "restart_only"]
PhaseName: TypeAlias = Literal[
    "open", "preparing", "prepared", "committing", "committed", "restoring", "restored"
]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What every POST carries.

    `run` is the random id of the checkpoint directory, `epoch` counts its collectors, `operation` the
    checkpoints, restores and retires within the epoch. `budget_ms` is what is left for this call, counted
    from its arrival on a monotonic clock; `lease_ms` is how long after that a closed participant waits for
    another call before it opens by itself.
    """

    run: str
    epoch: int
    operation: int
    budget_ms: int
    lease_ms: int = 60_000


class Hello(Call, frozen=True, kw_only=True):
    """POST hello: a run begins; whatever a lower epoch left open ends here."""


class Prepare(Call, frozen=True, kw_only=True):
    """POST prepare: close admission and wait until everything stands at a boundary."""


class Commit(Call, frozen=True, kw_only=True):
    """POST commit: export the scope, once, and write it. `directory` is below the checkpoint directory."""

    checkpoint_id: str
    directory: str
    scope: tuple[EpisodeId, ...]
    stop: bool = False


class RestoredEpisode(EpisodeId, frozen=True, kw_only=True):
    """An episode of a checkpoint, and the attempt that it goes on as."""

    becomes: Attempt


class Restore(Call, frozen=True, kw_only=True):
    """POST restore: install the records of a manifest, all or none."""

    checkpoint_id: str
    directory: str
    manifest_sha256: str
    scope: tuple[RestoredEpisode, ...]


class Resume(Call, frozen=True, kw_only=True):
    """POST resume: open again; also the abort of whatever is open."""


class Retire(Call, frozen=True, kw_only=True):
    """POST retire: stop these attempts, free what they hold, refuse them from now on. 1 to 1,024 episodes."""

    episodes: tuple[EpisodeId, ...]


class Forget(Call, frozen=True, kw_only=True, omit_defaults=True):
    """POST forget: nothing of these rollouts can still arrive; drop their refusals.

    `goodbye`: the run has ended as well, and needs nothing of this process any more.
    """

    rollout_ids: tuple[str, ...]
    goodbye: bool = False


class Blocker(msgspec.Struct, frozen=True):
    """What still prevents a safe cut: a capture key or a worker."""

    key: str
    why: str


class PrepareReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a prepare has come. `blockers` are the first 100 of `blocker_count`; `restarts` are all."""

    blockers: tuple[Blocker, ...] = ()
    blocker_count: int = 0
    restarts: tuple[str, ...] = ()
    counts: dict[str, int] = {}


class ManifestRef(msgspec.Struct, frozen=True):
    """A participant's manifest. `path` is relative to the checkpoint directory, `sha256` hex of its bytes."""

    path: str
    sha256: str
    record_count: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What every reply carries. `boot` is random per process start."""

    boot: str


class Capabilities(Answer, frozen=True, kw_only=True):
    """GET capabilities.

    `can_cut`: calls in generation at a checkpoint are kept as far as they have come, where what generates
    them lets that happen.
    """

    kind: Kind
    instance: str
    protocol: int = VERSION
    mode: Mode
    workers: int = 1
    can_cut: bool = False


class Status(Answer, frozen=True, kw_only=True):
    """GET status. `lease_expires` is milliseconds from now, None while open.

    `served`: a data request was admitted since the start. `restored_pending`: installed, claimed by nobody.
    `needed`: a collector has greeted, and not said goodbye yet.
    """

    phase: PhaseName
    operation: int | None
    epoch: int
    lease_expires: int | None
    report: PrepareReport | None
    restored_pending: int
    served: bool
    needed: bool | msgspec.UnsetType = msgspec.UNSET


class Seen(Answer, frozen=True, kw_only=True):
    """GET place: where a participant keeps checkpoints. One that has no such route is trusted.

    `directory`: as the participant names it; `lock_sha256`: hex, of the bytes that it reads from
    `collector.lock` there, None where it reads none.
    """

    directory: str
    lock_sha256: str | None


class Greeted(Answer, frozen=True, kw_only=True):
    """Reply to hello."""

    phase: PhaseName


class Prepared(Answer, frozen=True, kw_only=True):
    """Reply to prepare; `preparing` means that the budget ran out."""

    phase: PhaseName
    report: PrepareReport


class Committed(Answer, frozen=True, kw_only=True):
    """Reply to commit. `exported` are capture keys, `kept` staging keys, or the packs that hold them.

    `counts`: those of a report, as they are in the checkpoint; what is cut is counted here only.
    """

    phase: PhaseName
    manifest: ManifestRef
    exported: tuple[str, ...]
    kept: tuple[str, ...] = ()
    counts: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class Installed(Answer, frozen=True, kw_only=True):
    """Reply to restore. `installed` are capture keys of the attempts to come."""

    phase: PhaseName
    installed: tuple[str, ...]


class Resumed(Answer, frozen=True, kw_only=True):
    """Reply to resume."""

    phase: PhaseName


class Retired(Answer, frozen=True, kw_only=True):
    """Reply to retire: the work has stopped and its state is freed."""

    retired: tuple[str, ...]


class Forgotten(Answer, frozen=True, kw_only=True):
    """Reply to forget."""

    forgotten: tuple[str, ...]
