"""One life of the collector: it is born, struck, and over when the last of its processes is gone."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio
from attrs import define, field

from fuzz.invariants import holds
from fuzz.live.born import ACK_FD
from fuzz.live.hits import BLOW_VARIABLE
from fuzz.live.orders import Birth
from fuzz.live.processes import Process, Zygote, end, gone, sent, session_of, stands, until
from fuzz.live.serving import ORPHANS_S, Servers, variables
from fuzz.live.story import Life, Story, Strike
from fuzz.live.watching import Pace, Watch

PATIENCE_S: Final = 120.0  # of a life; the machine may be busy
SLACK_S: Final = 20.0  # beyond the grace
_NOT_YET: Final = "Fatal Python error: init_import_site"
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
    workers: int = 1  # of each server
    continued: int = 0  # rows that a checkpoint kept for it

    def judged_by(self, story: Story) -> int:
        """Its exit code, for the oracle; that of a death where servers have gone on since the stop.

        Then what it keeps need not be the last that happened. Their leases were over while the collector
        slept; or they outlive it, and the next one opens them, one kind after the other.
        """
        slept = any(one.strike.leases > 1 and one.strike.whom in {"collector", "all"} for one in self.struck)
        return -signal.SIGSTOP if slept or story.standing else self.code


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
                    left = await gone(process.pid, ORPHANS_S)
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
        # A Ctrl-C can come before the first line of ours: then it is Python's own words that say so.
        holds(15, "Traceback" not in told or _NOT_YET in told, f"it ended with a traceback: {told}")
        if self._told is not None:
            took, most = ended - self._told, self.story.grace_s + SLACK_S
            holds(14, took <= most, f"told to stop it went on for {took:.1f} s: {told}")
        for blow in watch.blows:
            if not own[0].holds_up:
                self.struck += [Struck(own[0], f"{watch.phase}: {blow}")]
        assert process.code is not None
        return Lived(process.code, told, watch.acknowledged, self.struck, life.workers)

    def _variables(self) -> dict[str, str]:
        told = str(ACK_FD)
        return {ACK_VARIABLE: told, BLOW_VARIABLE: told, **variables(self.folder, self.story)}

    async def _strike(self, life: Life, watch: Watch) -> None:
        async with trio.open_nursery() as nursery:
            for strike in life.strikes:
                if strike.is_own:
                    nursery.start_soon(self._hold if strike.holds_up else self._wake, strike, watch)
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

    async def _hold(self, strike: Strike, watch: Watch) -> None:
        """Hit somebody while the collector waits."""
        await watch.blow()
        try:
            await self._hit(strike, watch, f"{watch.phase}: {watch.blows[-1].partition(' ')[2]}")
        finally:
            sent(watch.process.pid, signal.SIGCONT)

    async def _hit(self, strike: Strike, watch: Watch, phase: str | None = None) -> None:
        """Send it, and what belongs to it afterwards."""
        number, targets = signal.Signals[f"SIG{strike.what}"], self._targets(strike.whom, watch.process)
        if watch.process.code is not None:
            return
        hit = [pid for pid in targets if sent(pid, number)]
        if not hit:
            return
        self.struck.append(Struck(strike, phase or watch.phase))
        if strike.what == "KILL":
            await until(lambda: not any(map(stands, hit)))
        if strike.holds_up:
            sent(watch.process.pid, signal.SIGCONT)
        if strike.what in STOPS and watch.process.pid in hit and self._told is None:
            self._told = trio.current_time()
        if strike.what == "STOP":
            await self._let_sleep(hit, strike)
        await self._see_to_servers(hit, strike, collector=watch.process.pid in hit)

    async def _let_sleep(self, hit: Sequence[int], strike: Strike) -> None:
        try:
            await trio.sleep(strike.leases * self.story.lease_s)
        finally:
            for pid in hit:
                sent(pid, signal.SIGCONT)
            if self._told is not None:
                self._told = trio.current_time()

    async def _see_to_servers(self, hit: Sequence[int], strike: Strike, *, collector: bool) -> None:
        """Those that stand alone: who was told to end is left alone, who was killed is started again."""
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
        alone = {server.pid: name for name, server in self.servers.standing.items()}
        named = session_of(*alone or [process.pid]) | alone
        named.pop(process.pid, None)
        servers = {pid: name for pid, name in named.items() if name != "stand-by"}
        if whom == "all":
            return [process.pid, *servers]
        return [pid for pid, name in servers.items() if _is_meant(name, whom)]


def _is_meant(name: str, whom: str) -> bool:
    """Whether the server or worker of that name is among those."""
    if whom == "servers":
        return True
    if whom == "workers":
        return " " in name
    if whom.endswith(" *"):
        return name.startswith(whom[:-1])
    return name == whom[:15]
