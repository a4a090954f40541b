"""A participant that is asked anything in any order is open, or closed with a lease that ends."""

import anyio
import hypothesis.strategies as st
import trio
from hypothesis import example, given
from trio.testing import MockClock, wait_all_tasks_blocked

from fuzz.invariants import BrokenError, all_hold, holds, raise_all
from triocollect.conformance.reference import BUDGET_S, DONE, LEASE_S, WAITS, Asking, Reference
from triocollect.errors import DamageError, StateError, StorageError
from triocollect.participant import Admission, EpisodeId, Participant, Record
from triocollect.participant.calls import Calls
from triocollect.participant.operations import Refuse
from triocollect.participant.standing import Standing
from triocollect.protocol import messages
from triocollect.protocol.identity import Sender
from triocollect.protocol.refusals import Code

KIND, NAME = "resources", "asked"
CONTINUED = (messages.RestoredEpisode("z", 3, becomes=5),)
OF_AN_ANSWER = {"hello": 8, "prepare": 8, "resume": 8, "commit": 9, "restore": 10, "retire": 7, "forget": 16}
OF_A_REFUSAL = {  # what does not hold, too, where it is left out
    Code.STALE_EPOCH: (2, 8, 16),
    Code.OTHER_RUN: (2, 8),
    Code.STALE_CHECKPOINT: (8, 9),
    Code.NOT_READY: (13,),
    Code.INVALID_PHASE: (5,),
    Code.NOT_FRESH: (13, 16),
}


class Server(Participant[Record]):
    """Hooks that never wait, of a server that is busy, was used or breaks when it is told to."""

    def __init__(self, admission):
        super().__init__(KIND, NAME, admission, Record)
        self.busy, self.used, self.fails = False, False, None
        self.shut, self.exports, self.installed = False, 0, set()

    def breaks(self, hook):
        if self.fails == hook:
            raise StateError(f"{hook} breaks")

    def close(self):
        self.shut = True
        self.breaks("close")

    def open(self):
        self.shut = False

    def report(self):
        blockers = (messages.Blocker("x", "a step is under way"),) * self.busy
        return messages.PrepareReport(blockers=blockers, blocker_count=len(blockers))

    def export(self, scope):
        self.exports += 1
        self.breaks("export")
        return [
            Record(rollout_id=one.rollout_id, attempt=one.attempt, kind=KIND, state=b"1") for one in scope
        ]

    async def install(self, records, becomes):
        self.installed = set(becomes.values())
        self.breaks("install")
        return tuple(self.installed)

    async def discard(self, keep):
        self.installed &= keep or set()

    def live(self):
        return self.busy

    def served(self):
        return self.used


class Disk:
    """A shelf in memory. It does what it is asked at once, once it no longer hangs, or not at all."""

    def __init__(self):
        self.how, self.used, self.turned = "well", 0, trio.Event()
        self.kept = {}

    def turn(self, how):
        self.how = how
        self.turned.set()
        self.turned = trio.Event()

    async def __call__(self, work):
        self.used += 1
        while self.how == "hangs":
            await self.turned.wait()
        if self.how == "full":
            raise StorageError("the disk is full", path="asked")
        return work()

    def write(self, checkpoint_id, directory, records, publication):
        if not publication.begin():
            return None
        manifest = messages.ManifestRef(directory, checkpoint_id, len(records))
        first = self.kept.setdefault(directory, manifest)
        holds(9, first == manifest, f"{manifest} in the place of {first}")
        return manifest

    def read(self, checkpoint_id, directory, manifest_sha256, record_type):
        if manifest_sha256 != "x":
            raise DamageError(f"{directory} is not what was written")
        return []


class Life:
    """One participant beside its reference: whatever befalls one befalls the other."""

    def __init__(self, tasks):
        self.admission, self.disk = Admission(), Disk()
        self.server = Server(self.admission)
        self.standing = Standing(self.server, self.admission, self.disk, self.disk, "boot")
        self.standing.tasks = tasks
        self.calls, self.reference = Calls(self.standing), Reference()
        self.asked = Asking("hello", "r", 1, 0)
        self.answers = {}  # to what is done once: the first of each operation

    async def happens(self, what, how):
        match what:
            case "call":
                await self.ask(self.near(*how))
            case "next":
                await self.ask(self.near(self.next(how), "r", 0, 0, "x"))
            case "again":
                await self.ask(self.asked)
            case "busy":
                self.server.busy = self.reference.busy = how
            case "used":
                self.server.used = self.reference.served = True
            case "fails":
                self.server.fails = self.reference.fails = how
            case "disk":
                self.reference.disk_turns(how)
                self.disk.turn(how)
            case "sleep":
                trio.lowlevel.current_clock().jump(how)
                return  # a lease that is over is the next caller's to notice
        await wait_all_tasks_blocked()
        self.compare()

    def next(self, first):
        """What a collector asks when all goes well."""
        return {
            "open": first,
            "prepared": "commit",
            "committing": "resume" if self.reference.export_failed else "commit",
            "committed": "resume",
            "restoring": "restore",
            "restored": "resume",
        }.get(self.reference.where, "prepare")

    def near(self, verb, run, epoch, operation, flavour):
        """A call about what is being done, or a little beside it."""
        reference = self.reference
        at = reference.over + 1 if reference.at is None else reference.at
        return Asking(verb, run, max(0, reference.epoch + epoch), max(0, at + operation), flavour)

    async def ask(self, asking):
        """Ask both. One who would have to wait goes away."""
        self.asked, call, answers = asking, self.message(asking), []

        async def answer():
            answers.append(await self.calls.answer(call, trio.current_time()))

        async with trio.open_nursery() as asker:
            asker.start_soon(answer)
            await wait_all_tasks_blocked()
            asker.cancel_scope.cancel()
        given = [answer.code if isinstance(answer, Refuse) else DONE for answer in answers] or [WAITS]
        expected = self.reference.ask(asking, trio.current_time())
        too_soon = asking.verb == "resume" and expected == WAITS  # a file may appear still
        number = 9 if too_soon else OF_AN_ANSWER[asking.verb]
        numbers = (number, *(OF_A_REFUSAL.get(expected, ()) if given == [DONE] else ()))
        all_hold(numbers, given == [expected], f"{asking} is answered with {given[0]}, not {expected}")
        if given == [DONE] and asking.verb in {"commit", "restore"}:
            first = self.answers.setdefault(asking[:4], answers[0])
            holds(9, answers[0] == first, f"{asking} was answered with {first}, and then with {answers[0]}")
        half = self.server.fails == "install" and given == [Code.INVALID_STATE]
        if half and asking.verb == "restore":
            holds(10, not self.server.installed, f"{self.server.installed} stay of a restore that failed")
        if given == [DONE] and asking.verb == "restore":
            fenced = [attempt for attempt in range(7) if self.admission.refusal(EpisodeId("z", attempt))]
            holds(10, fenced == [*range(5)], f"attempt 5 goes on; refused are {fenced}")

    def message(self, asking):
        verb, run, epoch, operation, flavour = asking
        times = {"budget_ms": BUDGET_S * 1000, "lease_ms": LEASE_S * 1000}
        place = {"checkpoint_id": flavour, "directory": f"{epoch}-{operation}"}
        old = {"checkpoint_id": "old", "directory": "old", "scope": CONTINUED}
        rest = {
            "commit": {**place, "scope": (EpisodeId(flavour),)},
            "restore": {**old, "manifest_sha256": flavour},
            "retire": {"episodes": (EpisodeId(flavour),)},
            "forget": {"rollout_ids": (flavour,)},
        }.get(verb, {})
        kind = getattr(messages, verb.capitalize())
        return kind(run=run, epoch=epoch, operation=operation, **times, **rest)

    def compare(self):
        """Both stand at the same place, and it is open or has a lease that ends."""
        reference, operations, now = self.reference, self.standing.operations, trio.current_time()
        reference.time_is(now)
        status = self.calls.status()
        closed = reference.where != "open"
        lease_ms = None if reference.lease is None else round((reference.lease - now) * 1000)
        standing = (status.phase, status.epoch, status.operation, status.lease_expires)
        at = reference.at if closed else None
        collects = None if reference.run is None else (reference.run, reference.epoch)
        refused = {name for name in "xy" if self.admission.refusal(EpisodeId(name)) is not None}
        stale = [] if reference.run is None else [Sender(reference.run, reference.epoch - 1), Sender("t", 99)]
        late = [one for one in stale if self.admission.refusal(EpisodeId("w"), sender=one) is None]
        hints = [self.admission.refusal(EpisodeId(name)).retired_through for name in sorted(refused)]
        ends = not closed or reference.aborted or 0 < lease_ms <= (BUDGET_S + LEASE_S) * 1000
        raise_all(
            [
                BrokenError(number, f"{what}: {found}, not {expected}")
                for number, what, found, expected in (
                    (8, "it stands", standing, (reference.where, reference.epoch, at, lease_ms)),
                    (8, "it is closed", (self.admission.closed, self.server.shut), (closed, closed)),
                    (8, "its lease ends", ends, True),
                    (9, "operations", (operations.ended, operations.current), (reference.over, reference.at)),
                    (9, "exports", self.server.exports, reference.exports),
                    (9, "work of the disk", self.disk.used, reference.disk_used),
                    (9, "what is written", self.disk.kept.keys(), reference.kept),
                    (2, "who collects", (operations.run, self.admission.sender), (reference.run, collects)),
                    (2, "who may run beside this collector's", late, []),
                    (16, "whose work nobody would forget", late, []),
                    (7, "who is retired and taken", reference.retired - refused, set()),
                    (10, "what the next attempt has to be above", hints, [0] * len(refused)),
                    (10, "who is refused and was not retired", refused - reference.retired, set()),
                )
                if found != expected
            ]
        )

    async def end(self):
        """The disk works and nobody calls any more: it opens."""
        await self.happens("disk", "well")
        await self.happens("sleep", BUDGET_S + LEASE_S)
        phase = self.calls.status().phase
        holds(8, phase == "open", f"it is {phase} when every lease is over")


async def live(steps):
    async with anyio.create_task_group() as tasks:
        life = Life(tasks)
        await life.happens("again", None)
        for step in steps:
            await life.happens(*step)
        await life.end()


HOW = {
    "next": st.sampled_from(["prepare", "prepare", "restore"]),
    "call": st.tuples(
        st.sampled_from(["hello", "prepare", "commit", "restore", "resume", "retire", "forget"]),
        st.sampled_from("rrrs"),
        st.sampled_from([0] * 5 + [1, 1, -1]),  # beside the present epoch
        st.sampled_from([0] * 6 + [1, 2, -1]),  # beside the operation at hand
        st.sampled_from("xxxxxy"),
    ),
    "again": st.none(),
    "busy": st.sampled_from([False, False, True]),
    "fails": st.sampled_from([None, None, "close", "export", "install"]),
    "disk": st.sampled_from(["well", "well", "hangs", "full"]),
    "sleep": st.sampled_from([1.0, 30.0, 64.0, 66.0]),
    "used": st.none(),
}
OFTEN = {"next": 10, "call": 8, "again": 2, "busy": 2, "fails": 2, "disk": 3, "sleep": 2, "used": 1}
step = st.sampled_from([what for what, times in OFTEN.items() for _ in range(times)]).flatmap(
    lambda what: st.tuples(st.just(what), HOW[what])
)


@example([[("next", "prepare"), ("busy", True), ("next", "prepare"), ("next", "prepare")]])  # rare by chance
@example([[("fails", "install"), ("next", "restore")]])
@example([[("call", ("retire", "r", 0, 0, "x"))]])
@given(st.lists(st.lists(step, max_size=12), max_size=10))
def test_whatever_is_asked_in_whatever_order_is_answered_as_the_reference_says(bouts):
    trio.run(live, [step for bout in bouts for step in bout], clock=MockClock())
