"""What happens to a run of real processes: lives with signals at chosen moments, and then one without."""

from typing import Final, Literal

import msgspec

SERVERS: Final = ("environment", "agent", "policy_model", "inference")
MIXES: Final = {  # kinds of rows: which data sets, by the server that judges each
    "counter": {"counter": "counter"},
    "sql": {"sql": "sql"},
    "blackjack": {"blackjack": "blackjack"},
    "verified": {"numeric": "arithmetic"},
    "mixed": {"counter": "counter", "sql": "sql", "blackjack": "blackjack", "numeric": "arithmetic"},
}

ALWAYS_ONE: Final = "inference"  # has no workers
SLOW_S: Final = 10.0

Of = Literal[
    "start",  # a share of the time from the birth to the first row, as it was last measured
    "effects",  # the nth line in the accounts of the environments
    "calls",  # the nth in the model's
    "lines",  # the nth event that the run tells
    "checkpoint",  # a share of one, as it was last measured, from the beginning of the next or the open one
    "names",  # right before the nth change of names by whom it hits
    "publish",  # the same, from the making of a checkpoint's folder on
    "held",  # right before the nth of those by the collector, which waits until the other one is hit
    "restore",  # likewise, before the nth sync from that on with which it logs what it is about to restore
    "closed",  # when a checkpoint or a restore has closed the agent, which stands alone
]
What = Literal["USR1", "TERM", "INT", "HUP", "KILL", "STOP"]


class Strike(msgspec.Struct, frozen=True, array_like=True):
    """One signal. Moments of one life follow each other: each counts from the one before.

    `whom`: the collector, one server by its name, all `servers`, or `all`. Of a server that several workers
    serve its name is the coordinator, `counter 2` one of its workers, `counter *` all of them, and `workers`
    those of all servers. `leases`: how long a stopped process stays so, in its leases.
    """

    of: Of
    at: float
    what: What
    whom: str = "collector"
    leases: float = 0.0

    @property
    def is_own(self) -> bool:
        """Whether a process counts for itself, and so has to know at its birth."""
        return self.of in {"names", "publish"} or self.holds_up

    @property
    def holds_up(self) -> bool:
        """Whether the collector waits meanwhile."""
        return self.of in {"held", "restore"}

    @property
    def hit(self) -> str:
        """As hits.py reads it."""
        if self.holds_up:
            return f"STOP collector {int(self.at)} {'restore' if self.of == 'restore' else 'publish'}"
        since = " publish" if self.of == "publish" else ""
        return f"{self.what} {self.whom} {int(self.at)}{since}"

    def struck(self, workers: int) -> str:
        """Who is hit, in words that are the same for all of a kind, where each server has so many workers."""
        server, _, which = self.whom.partition(" ")
        if which:
            return f"all workers of {server}" if which == "*" else f"a worker of {server}"
        if self.whom == "workers":
            return "all workers"
        has_some = workers > 1 and self.whom not in {"collector", "servers", "all", ALWAYS_ONE}
        return f"the coordinator of {self.whom}" if has_some else self.whom


class Life(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of the command. `cold`: as a user starts it, who forks nothing. `workers`: of each server."""

    strikes: tuple[Strike, ...] = ()
    cold: bool = False
    workers: int = 1


class Story(msgspec.Struct, frozen=True, omit_defaults=True):
    """All lives of a run, on one folder.

    `alone`: each server is a `serve` of its own, and one that dies is started again at the same address; the
    collector that ends leaves them `standing`, or the next one has new ones. Otherwise the deployment is the
    collector's own. `timeout_s` of a checkpoint; a lease is three of it. `workers`: in the lives that nobody
    disturbs any more.
    """

    mix: str
    rows: int
    concurrency: int = 8
    tokens_per_s: float = 40.0
    timeout_s: float = 20.0
    grace_s: float = 20.0
    alone: bool = False
    standing: bool = False
    lives: tuple[Life, ...] = ()
    workers: int = 1

    @property
    def lease_s(self) -> float:
        """From the call that it hears, at most, until a closed participant opens."""
        return 3 * self.timeout_s

    @property
    def is_quick(self) -> bool:
        """Whether a checkpoint or a restore may well take longer than it may."""
        return self.timeout_s < SLOW_S

    @property
    def text(self) -> str:
        """All of it, in one line that `told_by` understands."""
        return msgspec.json.encode(self).decode()


def told_by(text: str) -> Story:
    """The story of that text. Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=Story)
