"""One life of the collector: it is born, struck, and over when the last of its processes is gone."""

import signal
from pathlib import Path
from typing import Final

import trio
from attrs import define, field

from fuzz.invariants import holds
from fuzz.live.born import ACK_FD
from fuzz.live.hits import BLOW_VARIABLE
from fuzz.live.processes import Process, Zygote, end, sent, session_of, until
from fuzz.live.serving import Servers, variables
from fuzz.live.story import Life, Story, Strike
from fuzz.live.watching import Pace, Watch
from fuzz.live.zygote import Birth

PATIENCE_S: Final = 120.0  # of a life; the machine may be busy
SLACK_S: Final = 20.0  # beyond the grace
ORPHANS_S: Final = 20.0
STOPS: Final = frozenset({"TERM", "INT", "HUP"})
LOOK_S: Final = 0.02
ACK_VARIABLE: Final = "TRIOCOLLECT_ACK_FD"


@define
class Struck:
    """A signal that arrived. `phase`: what the run was doing, as it said."""

    strike: Strike
    phase: str


@define
class Lived:
    """What came of a life, seen from outside."""

    code: int
    words: str
    acknowledged: list[str]
    struck: list[Struck] = field(factory=list)

    @property
    def judged_by(self) -> int:
        """Its exit code, for the oracle; that of a death where the collector slept longer than a lease.

        Then what a stop keeps need not be the last that happened: servers have opened and gone on.
        """
        slept = any(one.strike.leases > 1 and one.strike.whom in {"collector", "all"} for one in self.struck)
        return -signal.SIGSTOP if slept else self.code


@define
class Living:
    """A life that goes on. `servers`: those that are not its own."""

    zygote: Zygote
    folder: Path
    story: Story
    pace: Pace
    servers: Servers
    struck: list[Struck] = field(factory=list)
    _told: float | None = None  # when it was told to stop, or could act on it at last

    async def live(self, life: Life, words: list[str]) -> Lived:
        """All of it. Raises BrokenError."""
        own = [strike for strike in life.strikes if strike.is_own]
        birth = Birth(("-m", "triocollect", *words), self._variables(), own[0].hit if own else "", life.cold)
        process = await self.zygote.bear(birth)
        watch = Watch(self.folder, process, self.pace)
        try:
            with trio.move_on_after(PATIENCE_S) as patience:
                async with trio.open_nursery() as reading:
                    reading.start_soon(watch.read)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._strike, life, watch)
                        await process.ended.wait()
                        ended = trio.current_time()
                        nursery.cancel_scope.cancel()
                    left = await orphans(process)
                    end(process.pid)  # or they hold what is read
        finally:
            with trio.CancelScope(shield=True):
                end(process.pid)
                await process.words.aclose()
                await process.acknowledged.aclose()
        told = watch.words.decode(errors="replace")
        number = 8 if self._told is None else 14
        holds(number, not patience.cancelled_caught, f"it did not end in {PATIENCE_S:g} s: {told}")
        holds(14, not left, f"servers outlived their collector: {left}")
        holds(15, "Traceback" not in told, f"it ended with a traceback: {told}")
        if self._told is not None:
            took, most = ended - self._told, self.story.grace_s + SLACK_S
            holds(14, took <= most, f"told to stop it went on for {took:.1f} s: {told}")
        for blow in watch.blows:
            self.struck += [Struck(own[0], f"{watch.phase}: {blow}")]
        assert process.code is not None
        return Lived(process.code, told, watch.acknowledged, self.struck)

    def _variables(self) -> dict[str, str]:
        told = str(ACK_FD)
        return {ACK_VARIABLE: told, BLOW_VARIABLE: told, **variables(self.folder, self.story)}

    async def _strike(self, life: Life, watch: Watch) -> None:
        async with trio.open_nursery() as nursery:
            for strike in life.strikes:
                if strike.is_own:
                    nursery.start_soon(self._wake, strike, watch)
                    continue
                if strike.of == "closed":
                    await self.servers.closed()
                else:
                    await watch.moment(strike)
                nursery.start_soon(self._hit, strike, watch)
                await trio.lowlevel.checkpoint()

    async def _wake(self, strike: Strike, watch: Watch) -> None:
        """Who stops itself cannot do that."""
        if strike.what == "STOP":
            await watch.blow()
            try:
                await trio.sleep(strike.leases * self.story.lease_s)
            finally:
                for pid in self._targets(strike.whom, watch.process):
                    sent(pid, signal.SIGCONT)

    async def _hit(self, strike: Strike, watch: Watch) -> None:
        """Send it, and what belongs to it afterwards."""
        number, targets = signal.Signals[f"SIG{strike.what}"], self._targets(strike.whom, watch.process)
        if watch.process.code is not None:
            return
        hit = [pid for pid in targets if sent(pid, number)]
        if not hit:
            return
        self.struck.append(Struck(strike, watch.phase))
        collector = watch.process.pid in hit
        if strike.what in STOPS and collector and self._told is None:
            self._told = trio.current_time()
        if strike.what == "STOP":
            try:
                await trio.sleep(strike.leases * self.story.lease_s)
            finally:
                for pid in hit:
                    sent(pid, signal.SIGCONT)
                if self._told is not None:
                    self._told = trio.current_time()
        struck = {name for name, server in self.servers.standing.items() if server.pid in hit}
        if strike.what not in {"KILL", "STOP"}:
            self.servers.leaving |= struck
        elif strike.what == "KILL" and not collector:
            for name in struck:
                await self.servers.standing[name].ended.wait()
                await self.servers.revive(name)

    def _targets(self, whom: str, process: Process) -> list[int]:
        if whom == "collector":
            return [process.pid]
        servers = {name: server.pid for name, server in self.servers.standing.items()} or {
            name: pid
            for pid, name in session_of(process.pid).items()
            if pid != process.pid and name != "stand-by"
        }
        if whom == "all":
            return [process.pid, *servers.values()]
        if whom == "servers":
            return list(servers.values())
        return [pid for name, pid in servers.items() if name == whom[:15]]


async def orphans(process: Process) -> dict[int, str]:
    """The servers of a collector that did not end with it."""
    with trio.move_on_after(ORPHANS_S):
        await until(lambda: not session_of(process.pid), LOOK_S)
    return session_of(process.pid)
