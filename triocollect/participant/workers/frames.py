"""What coordinator and worker tell each other, as JSON. Pure.

The coordinator's orders are numbered, and each is answered by a `Done` of its number; what is said without a
number (`Welcome`, `Stand`; a worker's `Report`, `Noted`, `Freed`, `Counted`) is not answered.
"""

from typing import Final, TypeAlias

import msgspec

from triocollect.protocol.identity import Sender
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Blocker, RestoredEpisode
from triocollect.telemetry.logs import NOBODYS, Whose


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The first word to a worker: what those that were there before know.

    `marks`: the highest retired attempt by rollout. `lost`: by rollout, up to which attempt its parts went
    with an earlier worker of this number.
    """

    marks: dict[str, int]
    lost: dict[str, int]


class Stand(msgspec.Struct, frozen=True, tag="stand"):
    """How things stand: closed or open, and who is obeyed. `generation` is raised at each close.

    `left`: that collector has said goodbye. `budget_s`: of the call that closed, `left_s`: of its lease,
    which the coordinator keeps; None: no call says. `whose`: the work that it is said for.
    """

    generation: int
    closed: bool
    sender: Sender | None
    left: bool
    budget_s: float | None = None
    left_s: float | None = None
    whose: Whose = NOBODYS


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered by a `Done` of this number, after a fresh report. `whose`: the work that it is for."""

    number: int
    whose: Whose = NOBODYS


class Tell(Order, frozen=True, tag="tell"):
    """Say where you are, now that all of the above is obeyed."""


class Export(Order, frozen=True, kw_only=True, tag="export"):
    """What you hold of these, if you still stand at your boundaries in this generation."""

    generation: int
    scope: tuple[EpisodeId, ...]


class Install(Order, frozen=True, kw_only=True, tag="install"):
    """Take up these records, all or none. `becomes`: of all workers; the attempts before those are over."""

    records: tuple[msgspec.Raw, ...]
    becomes: tuple[RestoredEpisode, ...]


class Discard(Order, frozen=True, kw_only=True, tag="discard"):
    """Drop restored state that nobody has claimed, but that of `keep` (None: all)."""

    keep: tuple[EpisodeId, ...] | None


class Stop(Order, frozen=True, kw_only=True, tag="stop"):
    """Refuse these attempts and all before them, end their work, free their state."""

    episodes: tuple[EpisodeId, ...]


class Forget(Order, frozen=True, kw_only=True, tag="forget"):
    """These rollouts are finished."""

    rollout_ids: tuple[str, ...]


class Clear(Order, frozen=True, kw_only=True, tag="clear"):
    """Free everything; these marks, by rollout, are all that is left."""

    marks: dict[str, int]


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """Where a worker is. `generation`: the latest close that it obeyed; `fault`: what that raised.

    `sequence` is raised with each report of a worker. `blockers` are the first ones, `blocker_count` all.
    """

    generation: int
    sequence: int
    blockers: tuple[Blocker, ...] = ()
    blocker_count: int = 0
    restarts: tuple[str, ...] = ()  # capture keys
    counts: dict[str, int] = {}
    live: bool = False
    served: bool = False
    restored_pending: int = 0
    fault: str | None = None


class Noted(msgspec.Struct, frozen=True, tag="noted"):
    """These episodes are about to have a part on this worker."""

    episodes: tuple[EpisodeId, ...]


class Freed(msgspec.Struct, frozen=True, tag="freed"):
    """Nothing is kept of these episodes any more."""

    episodes: tuple[EpisodeId, ...]


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    """So much more of a metric (`triocollect.telemetry`): a server's are told by its coordinator alone."""

    name: str
    by: float
    attributes: dict[str, str]


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The order of this number is carried out, or was not because of `fault`.

    `not_ready`: the worker does not stand at its boundaries any more; that is its fault then.
    """

    number: int
    fault: str | None = None
    not_ready: bool = False
    records: tuple[msgspec.Raw, ...] = ()
    kept: tuple[str, ...] = ()
    installed: tuple[EpisodeId, ...] = ()


FromCoordinator: TypeAlias = Welcome | Stand | Tell | Export | Install | Discard | Stop | Forget | Clear
FromWorker: TypeAlias = Report | Noted | Freed | Counted | Done

encode: Final = msgspec.json.Encoder().encode
from_coordinator: Final = msgspec.json.Decoder(FromCoordinator).decode
from_worker: Final = msgspec.json.Decoder(FromWorker).decode
