"""Where the sockets of one server's workers are: a private folder, gone with the coordinator."""

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from triocollect.errors import DeploymentError
from triocollect.protocol.handed_down import BACKLOG

MOST_PATH: Final = 107  # bytes of a Unix socket's path, by the kernel
COORDINATOR: Final = 0  # its number among the sockets
_PREFIX: Final = "triocollect-workers-"
_LONGEST_NAME: Final = len(f"/{_PREFIX}12345678/1234")
_SHORT: Final = "/tmp"  # noqa: S108  # a folder of mode 0700 is made in it, by a name that nobody can foresee


class Place(msgspec.Struct, frozen=True):
    """What a worker is told beside its settings: file descriptors that it inherits, and the folder."""

    number: int
    of: int
    link: int  # to the coordinator
    passed: int  # listening, for what the others pass on
    folder: str
    controlled: bool  # the coordinator answers control calls
    counting: bool  # it has metrics, and wants to know what is counted here


def socket_in(folder: str, number: int) -> str:
    """Where the worker of this number listens for what is passed on."""
    return f"{folder}/{number}"


@contextlib.contextmanager
def private_folder() -> Iterator[str]:
    """A new folder that only this user can look into, and that has a short enough name for its sockets.

    Where the one for temporary files has none, it is in /tmp. Raises DeploymentError.
    """
    wanted = tempfile.gettempdir()
    where = wanted if len(wanted.encode()) + _LONGEST_NAME <= MOST_PATH else _SHORT
    try:
        made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=where, ignore_cleanup_errors=True)
    except OSError as error:
        raise DeploymentError(f"no folder for the workers' sockets: {error}") from error
    with made as folder:
        yield folder  # of mode 0700


def listen_in(folder: str, number: int) -> socket.socket:
    """A listening socket there; it outlives a worker, so that who comes meanwhile waits for the next one.

    Raises DeploymentError.
    """
    path = socket_in(folder, number)
    if len(path.encode()) > MOST_PATH:
        raise DeploymentError(f"{path} is too long a name for a socket: set TMPDIR to a shorter folder")
    with contextlib.ExitStack() as unless_it_listens:
        try:
            listener = unless_it_listens.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(path)
            listener.listen(BACKLOG)
        except OSError as error:
            raise DeploymentError(f"workers cannot listen at {path}: {error}") from error
        unless_it_listens.pop_all()
    return listener


def remove(folder: str) -> None:
    """What a coordinator that was killed could not do any more."""
    for path in (*Path(folder).glob("*"), Path(folder)):
        with contextlib.suppress(OSError):
            path.unlink() if not path.is_dir() else path.rmdir()
