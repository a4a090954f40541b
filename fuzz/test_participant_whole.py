"""Whatever is asked and whatever hangs: it opens again, and no file appears after its resume was answered."""

import shutil

import anyio
import hypothesis.strategies as st
import trio
import trio.testing
from hypothesis import example, given, settings

from fuzz.invariants import holds
from fuzz.scratch import scratch
from tests.participant.harness import ONE, TWO, commit, participant, retire
from triocollect.participant import EpisodeId

LONGEST_S = 5 + 60  # budget and lease of every call
BUDGETS_MS = (0, 1_000, 5_000)


class Hanging:
    """Something that waits while it is held."""

    def __init__(self):
        self.free = anyio.Event()
        self.free.set()

    def hold(self):
        if self.free.is_set():
            self.free = anyio.Event()

    async def wait(self):
        await self.free.wait()


class World:
    """A participant, its disk, its hooks and its episodes, any of which may hang."""

    def __init__(self, caller, hangs, cut):
        self.caller, self.hangs, self.cut = caller, hangs, cut
        self.epoch, self.operation = 1, 1
        self.resumed = {}  # by operation: its files when its resume had been answered
        self.early = []  # who came in while it was closed
        self.retired = -1  # the highest attempt of "one" that is

    async def ask(self, verb, newer, epoch, budget):
        self.epoch, self.operation = max(1, self.epoch + epoch), max(1, self.operation + newer)
        operation = self.operation
        fields = {
            "commit": commit(operation, ONE, TWO),
            "restore": self.caller.installing(0, self.cut, one=operation),
            "retire": retire(EpisodeId("one", (attempt := 2 - operation % 3))),  # not always a later one
            "forget": {"rollout_ids": ["two"]},
        }.get(verb, {})
        at = 0 if verb == "hello" else operation
        status, body = await self.caller.post(verb, at, epoch=self.epoch, budget_ms=budget, **fields)
        assert status in {200, 409, 422, 503}, body
        if (verb, status) == ("resume", 200):
            self.resumed.setdefault(operation, self.files(operation))
        if (verb, status) == ("retire", 200):
            self.retired = max(self.retired, attempt)

    def enters(self, episode):
        """Somebody comes in."""
        self.early += [episode] * self.caller.counts.admission.closed

    def files(self, operation):
        folder = self.caller.root / f"ckpt-{operation:06}"
        return {path for path in folder.rglob("*") if path.is_file()}


async def live(root, steps):
    """Ask all of it, a task for each call; let go of everything; look."""
    hangs = {name: Hanging() for name in ("disk before", "disk after", "install", "stop", "work")}

    async def in_thread(work):
        await hangs["disk before"].wait()
        done = work()
        await hangs["disk after"].wait()
        return done

    async with participant(root, in_thread=in_thread) as old:
        await old.add(ONE)
        cut = await _saved(old)
    async with participant(root, in_thread=in_thread) as caller:
        counts = caller.counts
        counts.install_waits, counts.stop_waits, counts.slow = hangs["install"], hangs["stop"], hangs["work"]
        world = World(caller, hangs, cut)
        counts.admission.on_entry = world.enters
        async with anyio.create_task_group() as tasks:
            for step, *rest in steps:
                match step:
                    case "ask":
                        tasks.start_soon(world.ask, *rest)
                    case "work":
                        tasks.start_soon(caller.add, TWO)
                    case "hold":
                        hangs[rest[0]].hold()
                    case "free":
                        hangs[rest[0]].free.set()
                    case "sleep":
                        await anyio.sleep(rest[0])
                await trio.testing.wait_all_tasks_blocked()
            for hang in hangs.values():
                hang.free.set()
        start = anyio.current_time()
        await counts.admission.until_open()
        waited = anyio.current_time() - start
        holds(8, waited <= LONGEST_S, f"it was closed for {waited:g} s, which is longer than its lease")
        phase = await caller.phase()
        holds(8, phase == "open", f"it is {phase} when nobody calls any more")
        await caller.add(EpisodeId("new"))
        holds(5, not world.early, f"{world.early} came in while it was closed")
        taken = [
            one
            for one in range(world.retired + 1)
            if not counts.admission.marks.retired(EpisodeId("one", one))
        ]
        holds(2, not taken, f"attempts {taken} are taken, and were retired up to {world.retired}")
    for operation, files in world.resumed.items():
        holds(9, world.files(operation) == files, f"a file appeared after the resume of {operation}")


async def _saved(caller):
    await caller.ok("prepare", 9)
    return await caller.ok("commit", 9, **commit(0, ONE, TWO))


verbs = st.sampled_from(
    ["hello", "prepare", "prepare", "commit", "commit", "restore", "resume", "retire", "forget"]
)
names = st.sampled_from(["disk before", "disk after", "install", "stop", "work"])
step = st.one_of(
    st.tuples(
        st.just("ask"),
        verbs,
        st.sampled_from([0, 0, 0, 1, -1]),
        st.sampled_from([0] * 8 + [1, -1]),
        st.sampled_from(BUDGETS_MS),
    ),
    st.tuples(st.just("work")),
    st.tuples(st.sampled_from(["hold", "free"]), names),
    st.tuples(st.just("sleep"), st.sampled_from([0.5, 10.0, 70.0])),
)


PREPARES = ("ask", "prepare", 0, 0, 0)
LEASE_GROWS = [
    PREPARES,
    ("work",),
    ("sleep", 10.0),
    PREPARES,
    ("sleep", 50.5),
]  # and who waits goes on waiting


@example(LEASE_GROWS)
@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=25))
def test_whatever_is_asked_and_whatever_hangs_it_opens_again(steps):
    root = scratch()
    try:
        trio.run(live, root, steps, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        shutil.rmtree(root)
