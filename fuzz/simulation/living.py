"""One life: the collector as a process of a simulated machine, and what happens to it.

Whoever dies does nothing any more from that instant on: no file changes, nothing is sent, and what it tells
is not heard.
"""

import contextlib
import signal
import socket
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

import trio

from fuzz.invariants import broken, holds
from fuzz.simulation.calls import Calls
from fuzz.simulation.files import OWNER, fails_with, name_of
from fuzz.simulation.processes import inline
from fuzz.simulation.request import Request
from fuzz.simulation.rival import contend
from fuzz.simulation.sockets import open_to
from fuzz.simulation.story import Death, Fall, Life, Moment, Of
from fuzz.simulation.world import GRACE_S, World
from triocollect.checkpoint.signals import hear
from triocollect.collector.run import run
from triocollect.collector.setup import Setup
from triocollect.errors import StoppedError, TriocollectError, reason_of
from triocollect.events import CheckpointEnded, CheckpointStarted, Event, Note, RowFailed, RowRetried, RowSent
from triocollect.report.run_report import Report
from triocollect.transport import Client

SLACK_S = 20.0  # to the end of a run whose grace is over
_LAST_WRITES = 4  # of what is left to write then, each of which takes as long as the disk takes
LONGEST_S = 6 * 3600.0  # a life that lasts longer hangs
LEAP_S = 600.0
STOPS_S = 0.5  # is more than it takes to obey
BLOCKS = 3  # times until then
NUMBERS = {"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM, "INT": signal.SIGINT}


class Living:
    """One life. It is the collector's process, too."""

    name = "collector"

    def __init__(self, world: World, life: Life):
        self.world, self.life, self.oracle = world, life, world.oracle
        self.dead = False
        self.passed: Counter[str] = Counter()
        self.controls: list[str] = []  # the answers of participants: whose, and to what
        self.coming: dict[tuple[int, Of], list[Callable[[str], None]]] = defaultdict(list)
        self.struck: list[tuple[str, str]] = []
        self.outcome = "dead"
        self.report: Report | None = None
        self.inbox = None
        self.kept: set[int] = set()  # signals that came before anybody listened, each kind once
        self.told_at: float | None = None
        self.began = self.ended = 0.0
        self.whole = trio.CancelScope()
        self.servers = world.standing or world.servers(life)
        self._streams: list[tuple[trio.SocketStream, trio.SocketStream]] = []  # of rows, both ends
        self._happening: trio.Nursery | None = None

    # -- what is heard of it --------------------------------------------------------------------------------

    def tries(self, request: Request) -> None:
        if not self.dead:
            self.oracle.tries(request)

    def asks(self, request: Request) -> None:
        if not self.dead:
            self.oracle.asks(request)

    def arrives(self, request: Request) -> None:
        if not self.dead:
            self.oracle.arrives(request)

    def strays(self, request: Request) -> None:
        self.oracle.strays(request)

    def answers(self, request: Request, *, heard: bool) -> None:
        if not self.dead:
            self.oracle.answers(request, heard=heard)
        if request.door in {"peer", "control"}:
            where = f"{request.host} {request.kind}"
            if request.door == "control":
                self.controls.append(where)
            self._pass("answers" if request.door == "peer" else "controls", lambda: where)

    def strikes(self, kind: str, place: str) -> None:
        self.struck.append((kind, place))

    def changes(self, owner, operation: str, what: object) -> None:
        """Of files, by whomever."""
        for kind in ("files", "syncs") if operation == "fsync" else ("files",):
            self._pass(kind, lambda: f"{owner.name} {operation} {name_of(what)}")
        self.oracle.operations.changes(owner.name, operation, what)
        self.oracle.cuts.changes(name_of(what))
        for trouble in self.life.disk:
            is_now = trouble.nth <= self.passed["files"] < trouble.nth + trouble.count
            if is_now and (error := fails_with(operation, trouble.what)) is not None:
                self.strikes(trouble.what, f"{owner.name} {operation} {name_of(what)}")
                raise error

    def listen(self, event: Event) -> None:
        if self.dead:
            return
        match event:
            case CheckpointStarted(operation=operation, why=why):
                self.oracle.checkpoint_begins(operation, goes_on=why != "stop")
            case CheckpointEnded(outcome=outcome):
                self.oracle.checkpoint_ends(outcome, told=self.told_at is not None)
            case RowSent(key=key):
                self.oracle.row_begins(key.task, key.rollout)
                since = 0.0 if self.told_at is None else trio.current_time() - self.told_at
                soon = STOPS_S + BLOCKS * self.life.slow_ms / 1000
                self.oracle.holds(14, since <= soon, f"a row is sent {since:.0f} s after a stop")
            case RowRetried(episode=episode):
                self.oracle.row_comes_back(episode.rollout_id, episode.attempt)
            case RowFailed(episode=episode):
                self.oracle.cuts.lands(episode.rollout_id, episode.attempt)
            case Note(text=text):
                self.oracle.notes.append(text)
            case _:
                pass

    # -- what happens to it ---------------------------------------------------------------------------------

    def _pass(self, of: Of, where: Callable[[], str]) -> None:
        """One more."""
        self.passed[of] = at = self.passed.get(of, 0) + 1
        for act in self.coming.pop((at, of), ()):
            act(where())

    def die(self, death: Death, where: str) -> None:
        if self.dead:
            return
        self.strikes(f"death of {death.of}", where)
        self.dead = True
        self._shut(socket.SHUT_RDWR)
        if death.of != "collector" or self.world.standing is None:
            self.servers.die()
            self.world.standing = None
        self.whole.cancel()

    def _shut(self, how: int) -> int:
        """The servers' end of every connection of a row, as the client gives its own away; how many."""
        shut = 0
        for _, theirs in self._streams:
            with contextlib.suppress(OSError):
                theirs.socket.shutdown(how)
                shut += 1
        return shut

    def _break(self, seen: str, where: str) -> None:
        if not self.dead and self._shut(socket.SHUT_RDWR if seen == "by both" else socket.SHUT_RD):
            self.strikes(f"a break seen {seen}", where)

    def _fall(self, fall: Fall, where: str) -> None:
        if not self.dead and self.servers.restart(fall.server, fall.worker, fall.away_ms / 1000):
            self.strikes(f"death of {'a worker of ' if fall.worker else ''}{fall.server}", where)

    def _hear(self, what: str, where: str) -> None:
        asks = what in {"ASK", "RIVAL"}
        if self.dead or (asks and self.inbox is None):  # nobody is there to be asked
            return
        self.strikes(what, where)
        if asks:
            self._happening.start_soon(*((self._ask,) if what == "ASK" else (contend, self)))
            return
        if what != "USR1" and self.told_at is None:
            self.told_at = trio.current_time()
        if self.inbox is not None:
            hear(self.inbox, NUMBERS[what])
        elif what != "USR1":  # which is ignored that early
            self.kept.add(NUMBERS[what])

    async def _ask(self) -> None:
        taken = await self.inbox.ask()
        if not self.dead:
            self.oracle.kept.asker_hears(taken.outcome)

    def _leap(self, where: str) -> None:
        self.strikes("the machine slept", where)
        self.world.clock.jump(LEAP_S)
        if self.told_at is not None:
            self.told_at += LEAP_S

    # -- its course -----------------------------------------------------------------------------------------

    async def connect(self, host, _port, _tls):
        """The network of rows."""
        if self.dead:
            raise ConnectionRefusedError(host)
        ours, theirs = await open_to(self.world.network, host)
        self._streams.append((ours, theirs))
        return ours

    async def live(self) -> Report | None:
        """To its end, whatever that is."""
        OWNER.set(self)
        transport = Client(connect=self.connect)
        setup = Setup(
            config=self.world.config(self.life),
            transport=transport,
            listener=self.listen,
            blocking=self.blocking,
            orders=self._meet,
            deployment=self.servers.bring_up,
            control=Calls(self.world.network, lambda: self.dead),
        )
        fault = None
        try:
            with self.whole, trio.fail_after(LONGEST_S):
                async with trio.open_nursery() as self._happening:
                    self._plan_all()
                    self.report = await run(setup)
                    ended = trio.current_time()
                    self._happening.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            fault = reason_of(group)
        except (TriocollectError, trio.TooSlowError) as error:
            fault = error
        finally:
            with trio.CancelScope(shield=True):
                await transport.aclose()
        if self.dead:
            self.report = None
        elif fault is not None:
            self._judge(fault)
        else:
            assert self.report is not None
            self.outcome = self.report.ending
            if self.told_at is not None:
                longest_s = GRACE_S + SLACK_S + _LAST_WRITES * self.life.slow_ms / 1000
                holds(14, ended - self.told_at <= longest_s, "the run outlasted its grace")
        return self.report

    def _judge(self, fault: BaseException) -> None:
        self.outcome = type(fault).__name__
        if isinstance(fault, trio.TooSlowError):
            number = 14 if self.told_at is not None else 5 if self.oracle.waits_at_gate else 15
            broken(number, "the run hangs")
        stopped = isinstance(fault, StoppedError) and self.told_at is not None
        if not (stopped or (isinstance(fault, TriocollectError) and self.life.is_disturbed)):
            raise fault
        self.oracle.notes.append(str(fault))

    async def blocking(self, work):
        """What the collector has done by threads. What is continued was decided before it was handed over."""
        landed = self.oracle.cuts.landed
        if self.life.slow_ms:
            await trio.sleep(self.life.slow_ms / 1000)

        def at_work():
            self.oracle.cuts.works(landed)
            return work()

        return await inline(at_work)

    def _meet(self, inbox) -> None:
        self.inbox = inbox
        for number in sorted(self.kept):
            hear(inbox, number)

    def _plan_all(self) -> None:
        life = self.life
        for one in life.signals:
            self._plan(one.when, partial(self._hear, one.what))
        for fall in life.falls:
            self._plan(fall.when, partial(self._fall, fall))
        for one in life.breaks:
            self._plan(one.when, partial(self._break, one.seen))
        if life.leap is not None:
            self._plan(life.leap, self._leap)
        if life.death is not None:
            self._plan(life.death.when, partial(self.die, life.death))

    def _plan(self, when: Moment, act: Callable[[str], None]) -> None:
        if when.of == "ms":
            self._happening.start_soon(self._after, when.at, act)
        else:
            self.coming[when.at, when.of].append(lambda where: act(f"{when.of} {when.at}: {where}"))

    async def _after(self, ms: int, act: Callable[[str], None]) -> None:
        await trio.sleep(ms / 1000)
        act(f"{ms} ms")
