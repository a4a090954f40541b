"""Control calls in any order, again, at once and given up, from a seed, held against the reference."""

import copy
import itertools
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, final

import anyio

from triocollect.conformance.peer import Peer
from triocollect.conformance.reference import DONE, Asking, Reference
from triocollect.conformance.reply import Reply
from triocollect.conformance.restoring import NO_DIGEST, saved
from triocollect.errors import BrokenPromiseError
from triocollect.protocol.messages import Status
from triocollect.protocol.refusals import Code

LEAST_WALKS: Final = 10
STEPS: Final = 25  # of a walk
_TOLD: Final = 8  # calls that led to what is broken
_VERBS: Final = ("hello", "prepare", "commit", "restore", "resume", "retire", "forget")
_NEXT: Final = {"prepared": "commit", "committed": "resume", "restored": "resume"}
_CUT_OFF: Final = frozenset({"prepare", "commit", "restore"})  # what may be under way when its epoch ends
_OK: Final = 200


@final
class Wandering:
    """One server, and every reference that may be where it stands.

    Calls that are sent at once may be taken in any order, and one that is given up may have been taken or
    not: so there are several, and an answer that none of them gives is wrong.
    """

    def __init__(self, peer: Peer, seed: int) -> None:
        self.walks = 0
        self.calls = 0
        self._peer: Final = peer
        self._dice: Final = random.Random(seed)  # noqa: S311  # nothing secret
        # What is written has to be removed by somebody, so nothing much is where the files cannot be seen.
        self._verbs: Final = [verb for verb in _VERBS if verb != "commit" or peer.directory is not None]
        self._told: Final[deque[str]] = deque(maxlen=_TOLD)
        self._may_be: list[Reference] = []
        self._old: dict[str, object] = {}

    async def walk_for(self, seconds: float, _peer: Peer) -> None:
        """Walk for so long, ten at the least. Raises BrokenPromiseError with the calls that led there."""
        until = anyio.current_time() + seconds
        while self.walks < LEAST_WALKS or anyio.current_time() < until:
            await self._walk()
            self.walks += 1

    async def _walk(self) -> None:
        self._told.clear()
        await self._begin()
        for _ in range(STEPS):
            match self._dice.choices(("one", "at once", "given up"), (6, 2, 1)):
                case ["one"]:
                    await self._ask([self._drawn()])
                case ["at once"]:
                    await self._ask(self._drawn_together())
                case _:
                    await self._give_up()
        await self._ask([self._near("resume")])
        (await self._peer.begin()).must(await self._is_open(), "phase open after the greeting of a new epoch")

    async def _begin(self) -> None:
        """A checkpoint to restore, and a server that stands nowhere."""
        peer = self._peer
        await peer.begin()
        if not self._old:
            self._old = await saved(peer)
            await peer.begin()
        reference = Reference()
        reference.run, reference.epoch = peer.name, peer.epoch
        reference.served = (await peer.status()).served
        self._may_be = [reference]

    async def _is_open(self) -> bool:
        return (await self._peer.status()).phase == "open"

    # -- what is asked --------------------------------------------------------------------------------------

    def _drawn(self) -> Asking:
        """What a collector would ask now, or anything."""
        where = self._may_be[0].where
        if self._dice.random() < 0.5:  # noqa: PLR2004  # a fair coin
            verb = _NEXT.get(where, self._dice.choice(("prepare", "prepare", "restore")))
            return self._near(verb if verb in self._verbs else "resume")
        return self._near(
            self._dice.choice(self._verbs),
            run=self._dice.choices(("", "-other"), (5, 1))[0],
            epoch=self._dice.choices((0, 1, -1), (8, 1, 1))[0],
            operation=self._dice.choices((0, 1, 2, -1), (6, 1, 1, 1))[0],
            flavour=self._dice.choices("xy", (5, 1))[0],
        )

    def _drawn_together(self) -> list[Asking]:
        """Two or three. None is a restore that fails: it is the one call that others see in its middle."""
        drawn = [self._drawn() for _ in range(self._dice.choice((2, 2, 3)))]
        return [one._replace(flavour="x") if one.verb == "restore" else one for one in drawn]

    def _near(
        self, verb: str, run: str = "", epoch: int = 0, operation: int = 0, flavour: str = "x"
    ) -> Asking:
        reference = self._may_be[0]
        at = reference.over + 1 if reference.at is None else reference.at
        return Asking(verb, self._peer.name + run, reference.epoch + epoch, max(0, at + operation), flavour)

    async def _send(self, asking: Asking) -> Reply:
        """Put it into words. The epoch of the peer follows, so that what comes after is above it."""
        verb, run, epoch, operation, flavour = asking
        peer = self._peer
        peer.epoch = max(peer.epoch, epoch)
        fields: dict[str, object] = {}
        match verb:
            case "commit":
                folder = f"{peer.name}-{epoch:04}-{operation:02}"
                fields = {"checkpoint_id": f"{folder}-{flavour}", "directory": folder, "scope": []}
                if folder not in peer.folders:
                    peer.folders.append(folder)
            case "restore":
                fields = self._old if flavour == "x" else self._old | {"manifest_sha256": NO_DIGEST}
            case "retire":
                fields = {"episodes": [{"rollout_id": f"{peer.name}-{flavour}", "attempt": 0}]}
            case "forget":
                fields = {"rollout_ids": [f"{peer.name}-{flavour}"]}
            case _:
                pass
        self.calls += 1
        return await peer.call(verb, operation, **fields, run=run, epoch=epoch)

    # -- what is answered -----------------------------------------------------------------------------------

    async def _ask(self, askings: Sequence[Asking]) -> None:
        replies: dict[int, Reply] = {}
        broken: list[BrokenPromiseError] = []

        async def one(place: int, asking: Asking) -> None:
            try:
                replies[place] = await self._send(asking)
            except BrokenPromiseError as error:
                broken.append(error)

        async with anyio.create_task_group() as tasks:
            for place, asking in enumerate(askings):
                tasks.start_soon(one, place, asking)
        if broken:
            raise self._fault(broken[0].asked, broken[0].answered, broken[0].expected)
        answers = [_answer(replies[place]) for place in range(len(askings))]
        self._told.append(
            " at once with ".join(
                f"{_words(asking)}: {answer}" for asking, answer in zip(askings, answers, strict=True)
            )
        )
        after, expected = _agreeing(self._may_be, askings, answers)
        if not after:
            asked = " at once with ".join(replies[place].asked for place in range(len(askings)))
            raise self._fault(asked, ", ".join(answers), " or ".join(sorted(expected)))
        await self._look(after)

    async def _give_up(self) -> None:
        """Send, leave, and resume: it was taken or not, and is over in any case."""
        asking = self._near(self._dice.choice(sorted(_CUT_OFF.intersection(self._verbs))))
        with anyio.move_on_after(self._dice.choice((0.0, 0.001, 0.01))):
            await self._send(asking)
        self._told.append(f"{_words(asking)}, given up")
        taken = copy.deepcopy(self._may_be)
        for reference in taken:
            reference.ask(asking, 0)
        self._may_be += taken
        await self._ask([asking._replace(verb="resume")])

    async def _look(self, after: Sequence[Reference]) -> None:
        """Whoever of the references stands elsewhere than the server is out."""
        reply = await self._peer.raw("GET", "status")
        told = reply.done(Status)
        stands = (told.phase, told.epoch, told.operation)
        self._may_be = [one for one in after if _stands(one) == stands]
        if not self._may_be:
            expected = {"phase {}, epoch {}, operation {}".format(*_stands(one)) for one in after}
            raise self._fault(
                reply.asked, "phase {}, epoch {}, operation {}".format(*stands), " or ".join(sorted(expected))
            )
        self._may_be = list(_distinct(self._may_be))

    def _fault(self, asked: str, answered: str, expected: str) -> BrokenPromiseError:
        before = "; ".join(self._told)
        return BrokenPromiseError(asked=f"{asked}, after {before}", answered=answered, expected=expected)


def _agreeing(
    may_be: Sequence[Reference], askings: Sequence[Asking], answers: Sequence[str]
) -> tuple[list[Reference], set[str]]:
    """Those that answer so in some order, where they then stand, and what all of them would answer."""
    after, expected = list[Reference](), set[str]()
    for start in may_be:
        for order in itertools.permutations(range(len(askings))):
            reference = copy.deepcopy(start)
            says = {place: reference.ask(askings[place], 0) for place in order}
            expected.add(", ".join(says[place] for place in range(len(askings))))
            if all(
                says[place] == answers[place]
                or (len(askings) > 1 and _was_cut_off(reference, askings[place], answers[place]))
                or _was_early(askings, askings[place], says[place], answers[place])
                for place in order
            ):
                after.append(reference)
    return after, expected


def _was_cut_off(reference: Reference, asking: Asking, answered: str) -> bool:
    """One that was under way when another ended its operation may be told of that end."""
    over = asking.epoch < reference.epoch or asking.operation <= reference.over
    return over and asking.verb in _CUT_OFF and answered == Code.STALE_CHECKPOINT


def _was_early(askings: Sequence[Asking], asking: Asking, says: str, answered: str) -> bool:
    """A commit may come while the prepare beside it still asks other processes."""
    prepare = asking._replace(verb="prepare")
    met = any(one._replace(flavour=asking.flavour) == prepare for one in askings)
    return asking.verb == "commit" and met and (says, answered) == (Code.INVALID_PHASE, Code.NOT_READY)


def _stands(reference: Reference) -> tuple[str, int, int | None]:
    return reference.where, reference.epoch, None if reference.where == "open" else reference.at


def _distinct(references: Sequence[Reference]) -> Iterator[Reference]:
    seen = list[dict[str, object]]()
    for one in references:
        if vars(one) not in seen:
            seen.append(vars(one))
            yield one


def _answer(reply: Reply) -> str:
    return DONE if reply.status == _OK else reply.code or reply.answered


def _words(asking: Asking) -> str:
    run = " of another run" if asking.run.endswith("-other") else ""
    flavour = " with other arguments" if asking.flavour == "y" else ""
    return f"{asking.verb} {asking.operation} of epoch {asking.epoch}{run}{flavour}"
