"""What a forked process does: the command, whose servers are forked as well, by a process that stands by.

They are its children as if it had started them: each is forked twice, and whose parent ends is given to the
command, which has asked the kernel for that. A server that several workers serve has another that stands by,
for those.
"""

import array
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec
import trio

from fuzz.live import hits
from fuzz.live.orders import received
from triocollect.checkpoint import coordination
from triocollect.deployment.processes import IGNORING_SIGNALS

ACK_FD: Final = 3
_APART: Final = 512  # from every descriptor that a process has when it is born
IGNORED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
KEPT: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
LEAST_LEASE_S: Final = 1.0  # so that a lease is as long as twice what a checkpoint may take
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
_libc: Final = ctypes.CDLL(None, use_errno=True)
_open_process: Final = trio.lowlevel.open_process


class _Order(msgspec.Struct, frozen=True, array_like=True):
    """A server to be: its words, and the numbers that it knows its descriptors by, 0 and 2 not among them."""

    words: list[str]
    numbers: list[int]


def become(words: Sequence[str], fds: list[int]) -> NoReturn:
    """Be the command as a user starts it."""
    _take(dict(enumerate(fds)))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT)
    os.execv(sys.executable, [sys.executable, *words])


def live(words: Sequence[str], fds: list[int], hit: str) -> int:
    """Be the command, `-m triocollect …`, from its first line on. `hit`: by what; see hits.py."""
    _take(dict(enumerate(fds)))
    tempfile.tempdir = None  # TMPDIR may have been another one
    _let_stand_by(hit)
    os.execv = _exec
    coordination.LEAST_LEASE_S = LEAST_LEASE_S
    hits.expect(hit, "collector")
    sys.argv[:] = ["triocollect", *words[2:]]
    from triocollect.__main__ import program  # noqa: PLC0415  # by now it is loaded

    return program()


def _take(fds: Mapping[int, int]) -> None:
    """Each of these descriptors gets the number before it; nothing else stays open."""
    for nth, source in enumerate(fds.values()):
        os.dup2(source, _APART + nth)
    os.closerange(0, _APART)
    for nth, fd in enumerate(fds):
        os.dup2(_APART + nth, fd)
    os.closerange(_APART, 2 * _APART)


def _exec(_program: str, words: Sequence[str]) -> NoReturn:
    """In place of `execv`, by which `serve NAME` becomes its server."""
    sys.exit(_serve(words[words.index("-m") + 2 :], ""))


def _serve(words: Sequence[str], hit: str) -> int:
    from triocollect.servers.__main__ import main  # noqa: PLC0415  # by now it is loaded

    sys.argv[:] = ["triocollect.servers", *words]
    name = words[words.index("--name") + 1]
    call(name.encode())
    if has_workers(words) and trio.lowlevel.open_process is _open_process:
        _let_stand_by(hit)
    hits.expect(hit, name)
    random.seed()
    return main()


def has_workers(words: Sequence[str]) -> bool:
    """Whether a server of these words starts some."""
    return "--workers" in words and int(words[words.index("--workers") + 1]) > 1


def _let_stand_by(hit: str) -> None:
    """From now on a process that this one starts is forked by another, which ends with it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        _stand_by(theirs.fileno(), hit)
    theirs.close()
    trio.lowlevel.open_process = _Nursery(ours).open_process


def _stand_by(orders_fd: int, hit: str) -> NoReturn:
    """Fork servers until the command has ended."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, KEPT)
    hears = int(os.environ.get(hits.BLOW_VARIABLE, ACK_FD))
    _take({ACK_FD: hears, ACK_FD + 1: orders_fd})
    orders = socket.socket(fileno=ACK_FD + 1)
    call(b"stand-by")
    while True:
        data, fds = received(orders)
        if not data:
            os._exit(0)
        reader, writer = os.pipe()
        if (middle := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                order = msgspec.json.decode(data, type=_Order)
                stdin, stderr, *others = fds
                blow = max(2, *order.numbers) + 1
                null = os.open(os.devnull, os.O_WRONLY)
                named = dict(zip(order.numbers, others, strict=True))
                _take({0: stdin, 1: null, 2: stderr, **named, blow: ACK_FD})
                os.environ[hits.BLOW_VARIABLE] = str(blow)
                os._exit(_serve(order.words, hit))
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
    """In place of trio's `open_process`, for servers and their workers."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    async def open_process(
        self, command: Sequence[str], *, pass_fds: Sequence[int], **settings: object
    ) -> "_Child":
        """The server is a child of this process, as it would be."""
        assert tuple(command[: len(IGNORING_SIGNALS)]) == IGNORING_SIGNALS
        is_heard = settings.pop("stderr", None) == subprocess.PIPE
        assert settings == {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        order = _Order([*command[len(IGNORING_SIGNALS) + 3 :]], [*pass_fds])
        stdin, ours = os.pipe()
        theirs, stderr = os.pipe() if is_heard else (None, os.dup(2))
        packed = array.array("i", [stdin, stderr, *pass_fds])
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)]
        self._orders.sendmsg([msgspec.json.encode(order)], control)
        pid = int(self._orders.recv(32))
        os.close(stdin)
        os.close(stderr)
        heard = None if theirs is None else trio.lowlevel.FdStream(theirs)
        return _Child(pid, trio.lowlevel.FdStream(ours), heard)


class _Child:
    """What the deployment, and a coordinator, ask of a trio.Process."""

    def __init__(
        self, pid: int, stdin: trio.lowlevel.FdStream, stderr: trio.lowlevel.FdStream | None
    ) -> None:
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
