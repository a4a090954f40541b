"""What the zygote and who stands by are asked for over a socket, and what comes back."""

import array
import socket
from typing import Final

import msgspec

MOST_BYTES: Final = 1 << 16
MOST_FDS: Final = 8


class Birth(msgspec.Struct, frozen=True):
    """One process to be: its words, what its environment says beyond ours, and what is to hit it.

    `cold`: it is started as a user starts it, and imports everything.
    """

    words: tuple[str, ...]
    variables: dict[str, str]
    hit: str = ""
    cold: bool = False


class Born(msgspec.Struct, frozen=True, tag="born"):
    """It is there."""

    pid: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """It is gone: its exit code, below 0 the number of a signal."""

    pid: int
    code: int


def received(sock: socket.socket) -> tuple[bytes, list[int]]:
    """A packet and its descriptors; no bytes at the end."""
    data, ancillary, _flags, _address = sock.recvmsg(MOST_BYTES, socket.CMSG_SPACE(MOST_FDS * 4))
    fds = array.array("i")
    for _level, _kind, packed in ancillary:
        fds.frombytes(packed[: len(packed) - len(packed) % fds.itemsize])
    return data, list(fds)
