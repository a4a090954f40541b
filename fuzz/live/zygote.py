"""`python -m fuzz.live.zygote FD`: a process that has imported all of triocollect, and forks what it is told.

What is forked is the real program from its first line on, in a process of its own: it only has not to import
anything. On the socket FD come packets, a Birth each with the descriptors that become 1 and 2 (and what the
words name as `{fd}`); back go process ids, and how each process ended. The end of the socket ends them all.
"""

import contextlib
import gc
import importlib
import os
import random
import selectors
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Final

import msgspec

from fuzz.live import born
from fuzz.live.orders import Birth, Born, Ended, received

PRELOADED: Final = (
    "triocollect.__main__", "triocollect.cli.run", "triocollect.cli.serve", "triocollect.cli.verify",
    "triocollect.collector.run", "triocollect.servers.__main__", "triocollect.servers.environment.app",
    "triocollect.servers.agent.app", "triocollect.servers.model.app", "triocollect.servers.resources.app",
    "triocollect.servers.inference.app", "hypercorn.trio.run", "hypercorn.protocol.h11", "rich.console",
)  # fmt: skip


def wait_for_orders(sock: socket.socket) -> tuple[Birth, list[int]] | None:
    """Serve until the socket ends, which is None; what it returns besides, it returns in a forked process."""
    children: dict[int, int] = {}
    left = set[int]()  # who has ended, and has left workers that cannot end: they are stopped
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in children:
                    pid = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    left = {one for one in (*left, pid) if _sent_to_all(one, 0)}  # ids are given out again
                    with contextlib.suppress(OSError):
                        sock.send(msgspec.json.encode(Ended(pid, code)))
                    continue
                try:
                    data, fds = received(sock)
                except ConnectionResetError:
                    data, fds = b"", []
                if not data:
                    return _end_all(children.values(), left)
                birth = msgspec.json.decode(data, type=Birth)
                if (pid := os.fork()) == 0:
                    return birth, fds
                for fd in fds:
                    os.close(fd)
                children[pidfd := os.pidfd_open(pid)] = pid
                selector.register(pidfd, selectors.EVENT_READ)
                sock.send(msgspec.json.encode(Born(pid)))


def _end_all(children: Iterable[int], left: Iterable[int]) -> None:
    """Nobody outlives the driver, however that ended: who is stopped does not see the end of a pipe."""
    for pid in left:
        _sent_to_all(pid, signal.SIGKILL)
    for pid in children:
        if not _sent_to_all(pid, signal.SIGKILL):  # it leads nobody yet
            os.kill(pid, signal.SIGKILL)


def _sent_to_all(leader: int, number: int) -> bool:
    """Signal a process and all that it started; whether there is anybody."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    """The zygote, and everyone who comes out of it."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, born.KEPT)  # as the command's first lines do
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    fd = int(sys.argv[1])
    with socket.socket(fileno=fd) as sock:
        if (asked := wait_for_orders(sock)) is None:
            return 0
    birth, fds = asked
    os.setsid()
    os.environ.update(birth.variables)
    random.seed()
    if birth.cold:
        born.become(birth.words, fds)
    return born.live(birth.words, fds, birth.hit)


if __name__ == "__main__":
    sys.exit(main())
