"""What a setting can be: the kinds that the table names and `judge` knows how to read."""

from typing import Final, Literal, NewType, TypeAlias, get_args

from attrs import frozen

from triocollect.config.settings import Count, ParticipantKind
from triocollect.protocol.values import Json

Natural = NewType("Natural", int)  # >= 0
Port = NewType("Port", int)  # 0 to 65535
ExitStatus = NewType("ExitStatus", int)  # 1 to 255
Url = NewType("Url", str)  # http(s), no credentials, no trailing slash
ScrapeAddress = NewType("ScrapeAddress", str)  # HOST:PORT, a port above 0
HeadUrl = NewType("HeadUrl", str)  # a Url, or Gym's {host, port}
Parameters = NewType("Parameters", dict[str, Json])  # fields of responses_create_params
Repetition = NewType("Repetition", int)  # 1 to MOST_REPEATS
Repeats: TypeAlias = Count | dict[str, Count]
FanOut: TypeAlias = dict[str, tuple[str, ...]]
Names: TypeAlias = tuple[str, ...]
NameMap: TypeAlias = dict[str, str]

MOST_REPEATS: Final = 1_000_000  # of one row: more is a slip of the hand, and would fill a disk
GYM_HEAD_HOST: Final = "127.0.0.1"
GYM_HEAD_PORT: Final = 11000


@frozen
class Participant:
    """A server that takes part in checkpoints, named by the user."""

    kind: ParticipantKind
    url: Url


Participants: TypeAlias = tuple[Participant, ...]


@frozen
class Peer:
    """A resources server of somebody else's: the name that its rows know it by, and where it is."""

    name: str
    host: str
    port: int


Peers: TypeAlias = tuple[Peer, ...]

MAPS: Final = (Repeats, FanOut, NameMap, Parameters, HeadUrl)  # merged key by key, a higher origin wins


def choices(kind: object) -> tuple[str, ...]:
    """The words that a Literal kind allows; empty for every other kind."""
    return get_args(kind) if getattr(kind, "__origin__", None) is Literal else ()
