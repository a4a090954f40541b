"""What a forked process does: the command, whose servers are forked as well, by a process that stands by.

They are its children as if it had started them: each is forked twice, and whose parent ends is given to the
command, which has asked the kernel for that.
"""

import array
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import msgspec
import trio

from fuzz.live import hits, zygote
from triocollect.checkpoint import coordination
from triocollect.deployment.processes import IGNORING_SIGNALS

ACK_FD: Final = 3
LISTENER_FD: Final = 3  # of a server
_APART: Final = 512  # from every descriptor that a process has when it is born
IGNORED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
KEPT: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
LEAST_LEASE_S: Final = 1.0  # so that a lease is as long as twice what a checkpoint may take
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
_libc: Final = ctypes.CDLL(None, use_errno=True)


def become(words: Sequence[str], fds: list[int]) -> NoReturn:
    """Be the command as a user starts it."""
    _take(fds)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT)
    os.execv(sys.executable, [sys.executable, *words])


def live(words: Sequence[str], fds: list[int], hit: str) -> int:
    """Be the command, `-m triocollect …`, from its first line on. `hit`: by what; see hits.py."""
    _take(fds)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _stand_by(theirs, hit)
    theirs.close()
    trio.lowlevel.open_process = _Nursery(ours).open_process
    os.execv = _exec
    coordination.LEAST_LEASE_S = LEAST_LEASE_S
    hits.expect(hit, "collector")
    sys.argv[:] = ["triocollect", *words[2:]]
    from triocollect.__main__ import program  # noqa: PLC0415  # by now it is loaded

    return program()


def _take(fds: list[int]) -> None:
    """Descriptors become 0, 1, 2 …; nothing else stays open."""
    for fd, source in enumerate(fds):
        os.dup2(source, _APART + fd)
    for fd in range(len(fds)):
        os.dup2(_APART + fd, fd)
    os.closerange(len(fds), 2 * _APART)


def _exec(_program: str, words: Sequence[str]) -> NoReturn:
    """In place of `execv`, by which `serve NAME` becomes its server."""
    sys.exit(_serve(words[words.index("-m") + 2 :], ""))


def _serve(words: Sequence[str], hit: str) -> int:
    from triocollect.servers.__main__ import main  # noqa: PLC0415  # by now it is loaded

    sys.argv[:] = ["triocollect.servers", *words]
    name = words[words.index("--name") + 1]
    call(name.encode())
    hits.expect(hit, name)
    random.seed()
    return main()


def _stand_by(orders: socket.socket, hit: str) -> NoReturn:
    """Fork servers until the command has ended."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT)
    for fd in (1, 2):
        os.close(fd)
    call(b"stand-by")
    while True:
        data, fds = zygote.received(orders)
        if not data:
            os._exit(0)
        reader, writer = os.pipe()
        if (middle := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                _take([*fds[:1], os.open(os.devnull, os.O_WRONLY), *fds[1:], ACK_FD])
                os.environ[hits.BLOW_VARIABLE] = str(LISTENER_FD + 1)
                os._exit(_serve(msgspec.json.decode(data, type=list[str]), hit))
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.waitpid(middle, 0)
        orders.send(os.read(reader, 32))
        for fd in (reader, writer, *fds):
            os.close(fd)


def call(name: bytes) -> None:
    """What this process is called in a list of processes."""
    _libc.prctl(_PR_SET_NAME, name, 0, 0, 0)


class _Nursery:
    """In place of trio's `open_process`, for servers."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    async def open_process(
        self, command: Sequence[str], *, pass_fds: Sequence[int], **settings: object
    ) -> "_Child":
        """The server is a child of this process, as it would be."""
        assert tuple(command[: len(IGNORING_SIGNALS)]) == IGNORING_SIGNALS
        assert settings == {
            "stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE,
        }  # fmt: skip
        words = list(command[len(IGNORING_SIGNALS) + 3 :])
        words[words.index("--fd") + 1] = str(LISTENER_FD)
        stdin, ours = os.pipe()
        theirs, stderr = os.pipe()
        packed = array.array("i", [stdin, stderr, *pass_fds])
        order = msgspec.json.encode(words)
        self._orders.sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
        pid = int(self._orders.recv(32))
        os.close(stdin)
        os.close(stderr)
        return _Child(pid, trio.lowlevel.FdStream(ours), trio.lowlevel.FdStream(theirs))


class _Child:
    """What the deployment asks of a trio.Process."""

    def __init__(self, pid: int, stdin: trio.lowlevel.FdStream, stderr: trio.lowlevel.FdStream) -> None:
        self.pid, self.stdin, self.stderr = pid, stdin, stderr
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)

    async def wait(self) -> int:
        """Its exit code, below 0 the number of a signal."""
        if self.returncode is None:
            await trio.lowlevel.wait_readable(self._pidfd)
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])  # noqa: ASYNC222  # it has ended
            os.close(self._pidfd)
        return self.returncode

    def kill(self) -> None:
        """By SIGKILL."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
