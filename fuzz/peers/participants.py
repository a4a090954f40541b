"""Lying participants against the real controller: nothing untrue is published, and everybody opens again."""

import contextlib
import random
from pathlib import Path
from typing import Final

import trio
import trio.testing

from fuzz.files import oracle
from fuzz.invariants import holds
from fuzz.peers.lies import Liars, installs_less
from fuzz.peers.life import simulated
from fuzz.tally import Tally
from tests.checkpoint.world import KINDS, World
from triocollect.checkpoint.orders import Published
from triocollect.checkpoint.plan import Tried, plan
from triocollect.checkpoint.restore import restore
from triocollect.errors import CheckpointError, RefusedError, UsageError
from triocollect.protocol.ids import EpisodeId, RowKey

STEPS: Final = (*["take"] * 4, *["retire"] * 4, "reply", "boundary", "restart", "statuses")
FORGED: Final = {  # may say what was not done
    "untrue", "nonsense", "another status", "of an earlier call", "of somebody else",
}  # fmt: skip
TIMEOUT_S: Final = 20.0
LEASE_S: Final = 60.0
SLACK_S: Final = 30.0  # of a checkpoint that does not come about, for resumes and last questions


class Lied(World):
    """A run whose participants lie now and then."""

    def __init__(self, root: Path, nursery: trio.Nursery, dice: random.Random) -> None:
        super().__init__(root, nursery)
        self.network = Liars(nursery, root, dice)
        self.dice = dice
        self.story: list[str] = []  # how the run went: what it did, and the lies that it was told meanwhile

    def count(self, tally: Tally, step: str, lies: int, outcome: str) -> None:
        """The lies of a step, from the one of that number on; two runs that went alike count once."""
        told = sorted(self.network.lied[lies:])
        self.story += [step, *map(str, told)]
        for lie, call in told:
            tally.fault(lie, call, " ".join(self.story), outcome)

    def latest_bytes(self) -> bytes | None:
        """LATEST as it is."""
        path = self.root / "LATEST"
        return path.read_bytes() if path.exists() else None


async def live(root: Path, seed: int, tally: Tally) -> None:
    """One run, and the next one. Raises BrokenError."""
    dice = random.Random(seed)
    async with trio.open_nursery() as nursery:
        here = Lied(root, nursery, dice)
        await here.start(timeout_s=TIMEOUT_S)
        for task in range(dice.randrange(1, 4)):
            busy = dice.choice((None, None, None, *KINDS))
            here.fly(task, busy=busy)
            here.story.append(f"fly {busy}")
        here.network.chance = dice.choice((0.05, 0.15, 0.4))
        for _ in range(dice.randrange(1, 7)):
            await _step(here, tally)
        await _rest(here)
        await _next_run(here, tally)
        nursery.cancel_scope.cancel()
    tally.explored += 1


async def install_less(root: Path, seed: int, tally: Tally) -> None:
    """A checkpoint, and a next run whose environment says of too few rows that it has installed them."""
    async with trio.open_nursery() as nursery:
        here = Lied(root, nursery, random.Random(seed))
        await here.start(timeout_s=TIMEOUT_S)
        here.fly(0)
        here.fly(1)
        await _take(here, tally)
        here.network.always["environment restore"] = installs_less
        went_on = await _next_run(here, tally)
        holds(10, went_on != "restored", "rows go on that no environment says it has installed")
        nursery.cancel_scope.cancel()


async def _step(here: Lied, tally: Tally) -> None:
    step = here.dice.choice(STEPS)
    match step:
        case "take":
            await _take(here, tally)
            return
        case "retire":
            await _retire(here, tally)
            return
        case "reply":
            if here.air.ledger.flying:
                row = here.dice.choice(list(here.air.ledger.flying))
                here.air.reply(row)
                step = f"reply {row}"
        case "boundary":
            _at_boundaries(here)
        case "restart":
            kind = here.dice.choice(KINDS)
            await here.restart_server(kind)
            step = f"restart {kind}"
        case _:
            lies = len(here.network.lied)
            with contextlib.suppress(CheckpointError):
                await here.coordination.statuses()
            here.count(tally, step, lies, "asked")
            return
    here.story.append(step)


def _at_boundaries(here: Lied) -> None:
    for server in here.servers.values():
        for episode in list(server.busy):
            server.at_boundary(episode)


async def _take(here: Lied, tally: Tally) -> None:
    before, known = here.latest_bytes(), oracle.latest(here.root)
    scope, began, lies = here.air.ledger.scope(), trio.current_time(), len(here.network.lied)
    taken = await here.take(timeout_s=TIMEOUT_S)
    seconds = trio.current_time() - began
    holds(14, seconds <= TIMEOUT_S + SLACK_S, f"a checkpoint took {seconds:.0f} s")
    holds(5, here.air.gate.is_open, "the gate stays closed after a checkpoint")
    published = isinstance(taken, Published)
    if published:
        _judge_published(here, taken, known, scope, here.network.lied[lies:])
    else:
        holds(3, here.latest_bytes() == before, "LATEST has changed, and nothing is published")
        holds("words", taken.reason, "nothing is published, and nobody says why")
    here.count(tally, "take", lies, "published" if published else "not published")
    here.air.ledger.torn.clear()


def _judge_published(here: Lied, taken: Published, known, scope, lies: list[tuple[str, str]]) -> None:
    latest = oracle.latest(here.root)
    holds(3, latest is not None, "published, and LATEST says nothing")
    holds(3, known is None or latest.sequence > known.sequence, "LATEST has gone back")
    folder = here.root / f"ckpt-{latest.sequence:06d}"
    wrong = oracle.fault_of_chain(folder, latest)
    holds(3, wrong is None, f"published, and not whole: {wrong}")
    holds(
        6, set(taken.continued) <= scope, f"{set(taken.continued) - scope} continue, and were not in flight"
    )
    if not any(call.startswith("environment ") for _, call in lies):
        busy = [one for server in here.servers.values() for one in server.busy if one in taken.continued]
        held = here.servers["environment"].held
        holds(6, not busy and all(one in held for one in taken.continued), "what nobody exported continues")
    whole = [path for path in here.root.glob("ckpt-*") if (path / "collection.json").exists()]
    holds(4, len(whole) <= 2, f"{len(whole)} checkpoints are kept")


async def _retire(here: Lied, tally: Tally) -> None:
    for episode in list(here.air.ledger.flying.values()):
        await _retire_one(here, episode, tally)


async def _retire_one(here: Lied, episode: EpisodeId, tally: Tally) -> None:
    lies = len(here.network.lied)
    try:
        await here.coordination.settle_owed()
        if here.coordination.owes:
            return
        await here.coordination.retire((episode,))
    except CheckpointError:
        outcome = "refused"
    else:
        outcome = "retired"
        forged = {call for lie, call in here.network.lied[lies:] if lie in FORGED}
        for kind, server in here.servers.items():
            if f"{kind} retire" not in forged:
                holds(
                    7,
                    episode in server.stopped,
                    f"{kind} has not retired {episode.capture_key}, and counts so",
                )
    here.count(tally, f"retire {episode.capture_key}", lies, outcome)


async def _rest(here: Lied) -> None:
    """Nobody lies any more: what is owed is paid, or the lease ends, and the next checkpoint comes about."""
    here.network.chance = 0.0
    await here.coordination.settle_owed()
    await trio.sleep(TIMEOUT_S + LEASE_S + 200.0)  # also what was delivered after all has its lease behind it
    holds(8, here.all_open, f"after the lease: {here.phases}, gate open: {here.air.gate.is_open}")
    _at_boundaries(here)
    taken = await here.take(timeout_s=TIMEOUT_S)
    why = getattr(taken, "reason", None)
    holds(8, isinstance(taken, Published), f"nobody lies any more, and still: {why}")
    holds(8, here.all_open, f"after a checkpoint: {here.phases}")


async def _next_run(here: Lied, tally: Tally) -> str:
    """Fresh servers, the next collector: it restores all or nothing, whatever it is told. What came of it."""
    latest, whole = oracle.latest(here.root), here.store.find().checkpoint
    published = None if latest is None else here.root / f"ckpt-{latest.sequence:06d}"
    holds(10, published is not None, "nothing is published when nobody lies")
    wrong = oracle.fault_of_chain(published, latest)
    holds(3, wrong is None, f"what is published is not whole: {wrong}")
    found = None if whole is None else whole.folder
    holds(10, found == published, f"{published.name} is published, and a start goes on from {found}")
    for kind in here.servers:
        await here.restart_server(kind)
    here.network.chance = here.dice.choice((0.0, 0.1, 0.3))
    lies = len(here.network.lied)
    try:
        await here.take_over(epoch=2, timeout_s=TIMEOUT_S)
    except (UsageError, RefusedError, CheckpointError):
        outcome = "refused to start"
    else:
        outcome = await _restore(here, whole)
    here.count(tally, "next run", lies, outcome)
    here.network.chance = 0.0
    await trio.sleep(TIMEOUT_S + LEASE_S + 200.0)
    closed = [kind for kind, phase in here.phases.items() if phase != "open"]
    holds(8, not closed, f"{closed} are closed after the lease")
    return outcome


async def _restore(here: Lied, whole) -> str:
    continued = whole.collection.continued
    keys = {one: RowKey(*map(int, one.rollout_id.split("-"))) for one in continued}
    here.know({keys[one]: one.attempt for one in continued})
    tried = {one.rollout_id: Tried(key=keys[one], highest=one.attempt, sent=one.attempt) for one in continued}
    made = plan(continued, tried)
    done = await restore(here.crew, whole, made, lambda _episodes: None)
    ledger = here.air.ledger
    if done.restored:
        holds(10, done.restored == len(continued), f"{done.restored} of {len(continued)} are restored")
        becoming = {EpisodeId(one.rollout_id, one.attempt + 1) for one in continued}
        holds(10, set(ledger.scope()) == becoming, "other rows go on than were restored")
        return "restored"
    holds("words", not continued or done.fault, "nothing is restored, and nobody says why")
    holds(10, not ledger.restored, "nothing is restored, and rows go on")
    lost = {one.rollout_id for one in ledger.lost.values()}
    holds(
        7,
        lost >= {one.rollout_id for one in continued},
        "what was tried is not retired before it is sent again",
    )
    return "from the input"


def participants_lie(seed: int, tally: Tally) -> None:
    """One run with the lies of this seed. Raises BrokenError."""
    simulated(live, seed, tally)
