"""All lives of a story, and what the oracle says of them."""

import signal
import tempfile
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

import trio
from attrs import define, field

from fuzz.account import INTERRUPTED, STOPPED, Witness
from fuzz.account import Life as Seen
from fuzz.attempts import Whole
from fuzz.boundaries import Boundary
from fuzz.invariants import holds
from fuzz.live.living import SLACK_S, STOPS, Lived, Living
from fuzz.live.processes import Zygote
from fuzz.live.serving import Servers
from fuzz.live.story import MIXES, Life, Story
from fuzz.live.watching import Pace
from fuzz.oracle import judge, uninterrupted
from triocollect.deployment import datasets

MOST_ROWS: Final = 6
MOST_LIVES: Final = 6  # that nobody disturbs, until every row has its result
SIGNALS: Final = {name: -signal.Signals[f"SIG{name}"] for name in ("TERM", "INT", "HUP", "USR1")}
_UNHURRIED_S: Final = 60.0


@define
class Stage:
    """Where stories are told: with one zygote, and the measure of each kind of rows, taken once."""

    zygote: Zygote
    folder: Path
    pace: Pace = field(factory=Pace)
    _wholes: dict[str, Mapping[str, Whole]] = field(factory=dict)
    _measuring: trio.Lock = field(factory=trio.Lock)

    async def tell(self, story: Story) -> list[Lived]:
        """Live it. Raises BrokenError where an invariant does not hold."""
        wholes = await self._measured(story.mix)
        wholes = {row: whole for row, whole in wholes.items() if int(row.split("-")[0]) < story.rows}
        witness, lived = await self._lived(story, wholes.keys())
        wrong = judge(witness.lives, wholes)
        if wrong:
            told = "\n".join(f"life {nth} ({one.code}): {one.words}" for nth, one in enumerate(lived, 1))
            raise WrongError("\n".join([*wrong, told]))
        return lived

    async def _lived(self, story: Story, rows: AbstractSet[str]) -> tuple[Witness, list[Lived]]:
        lived = []
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            witness = Witness(folder, standing=story.standing)
            async with trio.open_nursery() as nursery:
                servers = Servers(self.zygote, folder, story, nursery)
                try:
                    for life in (*story.lives, *[Life(workers=story.workers)] * MOST_LIVES):
                        if story.alone:
                            await servers.start(life.workers)
                        one = await self._live(story, life, folder, servers)
                        if story.alone and not story.standing:
                            await servers.end()
                        before = witness.lives[-1] if witness.lives else Seen()
                        seen = witness.look(one.judged_by(story), one.acknowledged, anew=story.alone)
                        one.continued = len(kept_for(before))
                        lived.append(one)
                        check_end(one, life, seen, rows, alone=story.alone)
                        check_told(before, one, rows)
                        if story.standing and story.is_quick:
                            closed = await servers.opened(story.lease_s + SLACK_S)
                            holds(8, not closed, f"nobody commands {closed}, and no lease opens them")
                        if not life.strikes and not story.standing and not story.is_quick:
                            check_continued(before, seen, one.words)
                        if not life.strikes and seen.finished >= rows:
                            break
                finally:
                    servers.kill()
        return witness, lived

    async def _live(self, story: Story, life: Life, folder: Path, servers: Servers) -> Lived:
        living = Living(self.zygote, folder, story, self.pace, servers)
        if story.alone:
            where = ["--head-server", servers.head]
        else:
            where = ["--workers", str(life.workers)] if life.workers > 1 else []
        return await living.live(life, [*words_of(story, folder, self._data(story.mix)), *where])

    async def _measured(self, mix: str) -> Mapping[str, Whole]:
        """What each row takes when nobody interrupts it."""
        async with self._measuring:
            if mix not in self._wholes:
                story = Story(mix, MOST_ROWS, tokens_per_s=1e6, timeout_s=_UNHURRIED_S)
                witness, _ = await self._lived(story, frozenset())
                self._wholes[mix] = uninterrupted(witness.lives[0])
        return self._wholes[mix]

    def _data(self, mix: str) -> Path:
        """Rows of each kind in turn."""
        path = self.folder / f"{mix}.jsonl"
        if not path.exists():
            kinds = (
                datasets.path(name).read_bytes().splitlines(keepends=True) for name in MIXES[mix].values()
            )
            rows = chain.from_iterable(zip_longest(*(kind[:MOST_ROWS] for kind in kinds)))
            path.write_bytes(b"".join(list(rows)[:MOST_ROWS]))
        return path


class WrongError(AssertionError):
    """The oracle found something; its sentences name the invariants."""


def words_of(story: Story, folder: Path, data: Path) -> list[str]:
    """The command of every life."""
    words = ["run", "-i", data, "--limit", story.rows, "-c", story.concurrency, "-o", folder / "out.jsonl"]
    words += ["--checkpoint-dir", folder / "ckpt", "--checkpoint-timeout", story.timeout_s]
    words += ["--grace", story.grace_s, "--progress", "json", "--disable-aggregation"]
    return list(map(str, words))


def check_end(one: Lived, life: Life, seen: Seen, rows: AbstractSet[str], *, alone: bool) -> None:
    """Whether the exit code is one of those that what happened allows, and says what is on disk."""
    whats = Counter(each.strike.what for each in one.struck)
    killed = {each.strike.whom for each in one.struck if each.strike.what == "KILL"}
    workers = {whom for whom in killed if whom == "workers" or " " in whom}
    codes = {0}
    if whats.keys() & STOPS:
        codes |= {STOPPED, *(SIGNALS[what] for what in whats if life.cold and what in SIGNALS)}
    if whats["INT"] > 1:
        codes |= {INTERRUPTED}
    if killed & {"collector", "all"}:
        codes |= {-signal.SIGKILL}
    if workers:
        codes |= {3}  # others take their places, but every row may have failed
    if killed - {"collector"} - workers or (alone and any(each.strike.whom == "all" for each in one.struck)):
        codes |= {1, 3}  # the deployment has ended; or all rows have failed
    holds(14, one.code in codes, f"exit code {one.code}, of {sorted(codes)}: {one.words}")
    if one.code == 0:
        left = rows - seen.finished - {line.rollout_id for line in seen.failures}
        holds(15, not left, f"exit code 0, and {sorted(left)} are left: {one.words}")


def check_told(before: Seen, one: Lived, rows: AbstractSet[str]) -> None:
    """Whether a run that was told to stop before its first row has heard it."""
    told = any(
        each.phase == "start" and each.strike.what in STOPS and each.strike.whom in {"collector", "all"}
        for each in one.struck
    )
    deaf = told and one.code == 0 and before.finished < rows
    holds(14, not deaf, f"told to stop before the first row it went on to the end: {one.words}")


def kept_for(before: Seen) -> dict[str, Boundary]:
    """What the next life goes on from: rows that are kept, and have no result."""
    kept = {} if before.checkpoint is None else before.checkpoint.kept
    over = before.finished | {line.rollout_id for line in before.failures}
    return {row: boundary for row, boundary in kept.items() if row not in over}


def check_continued(before: Seen, seen: Seen, words: str) -> None:
    """Whether a life that nobody disturbed has continued all that the one before it kept."""
    kept = kept_for(before)
    for row in kept:
        attempts = set(seen.sent.get(row, ()))
        first = next((one.effect for one in seen.effects.get(row, ())), None)
        anew = len(attempts) != 1 or (first == "seed" and kept[row].state is not None)
        holds(10, not anew, f"{row} is kept, and was sent as {attempts} and began with {first}: {words}")
