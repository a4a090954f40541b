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

SLOW_S: Final = 10.0

Of = Literal[
    "start",  # a share of the time from the birth to the first row, as it was last measured
    "effects",  # the nth line in the accounts of the environments
    "calls",  # the nth in the model's
    "lines",  # the nth event that the run tells
    "checkpoint",  # a share of one, as it was last measured, from the beginning of the next or the open one
    "names",  # right before the nth change of names by whom it hits
    "publish",  # the same, from the making of a checkpoint's folder on
    "closed",  # when a checkpoint has closed the agent, which stands alone
]
What = Literal["USR1", "TERM", "INT", "HUP", "KILL", "STOP"]


class Strike(msgspec.Struct, frozen=True, array_like=True):
    """One signal. Moments of one life follow each other: each counts from the one before.

    `whom`: the collector, one server by its name, all `servers`, or `all`. `leases`: how long a stopped
    process stays so, in its leases.
    """

    of: Of
    at: float
    what: What
    whom: str = "collector"
    leases: float = 0.0

    @property
    def is_own(self) -> bool:
        """Whether the process that is hit counts for itself."""
        return self.of in {"names", "publish"}

    @property
    def hit(self) -> str:
        """As hits.py reads it."""
        since = " publish" if self.of == "publish" else ""
        return f"{self.what} {self.whom} {int(self.at)}{since}"


class Life(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of the command. `cold`: as a user starts it, who forks nothing."""

    strikes: tuple[Strike, ...] = ()
    cold: bool = False


class Story(msgspec.Struct, frozen=True, omit_defaults=True):
    """All lives of a run, on one folder.

    `alone`: each server is a `serve` of its own, and one that dies is started again at the same address; the
    collector that ends leaves them `standing`, or the next one has new ones. Otherwise the deployment is the
    collector's own. `timeout_s` of a checkpoint; a lease is three of it.
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
