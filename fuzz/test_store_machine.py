"""LATEST always names something whole, numbers never repeat, at most two are kept, foreign files stay.

Whatever dies when: killed or without power before any step, an error of the disk at any step, what dead
processes leave, what strangers damage.
"""

import contextlib
import shutil
from functools import partial

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
import trio
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fuzz.invariants import all_hold, holds
from fuzz.scratch import scratch
from tests.checkpoint.checkpoints import draft
from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.directory import open_directory, read_lock
from triocollect.checkpoint.ladder import find_checkpoint, read_latest
from triocollect.checkpoint.names import folder_name, is_rest, sequence_of
from triocollect.checkpoint.store import Store
from triocollect.errors import DamageError, LockedError, StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import LOCK

FOREIGN = {
    "notes.txt": b"mine",
    "ckpt-7": b"mine too",
    ".hidden": b"",
    ".trash-x": b"",
    ".x.tmp": b"",
    "ckpt-000000.bak": b"x",
}
steps = st.integers(0, 34)  # a checkpoint with its prune takes 33
SYNC_OF_LATEST = 20


def taken_over():
    raise LockedError("another collector has taken over")


class Lives(RuleBasedStateMachine):
    """One directory, many collectors.

    `latest`: the numbers that LATEST may name (None: there is none). `published`: those it may ever have
    named. `harmed`: names that a stranger has damaged. `untold`: numbers that stood under a damaged LATEST:
    nobody can tell any more which of them it has named.
    """

    def __init__(self):
        super().__init__()
        self.root = scratch()
        self.store = Store(self.root)
        self.used, self.published, self.latest, self.harmed = set(), set(), {None}, set()
        self.untold = set()

    def teardown(self):
        shutil.rmtree(self.root)

    @initialize()
    def strangers_keep_things_here(self):
        for name, data in FOREIGN.items():
            (self.root / name).write_bytes(data)

    def names(self):
        return {path.name for path in self.root.iterdir()}

    def folders(self):
        return {number for name in self.names() if (number := sequence_of(name))}

    def begin(self):
        collection = draft(self.store, [EpisodeId("0-0")], [("environment", "env")])
        holds(3, collection.sequence not in self.used, f"number {collection.sequence} was used before")
        self.used.add(collection.sequence)
        return collection

    def has_published(self, number):
        if "LATEST" in self.harmed:
            self.untold |= self.used | self.folders()
        self.published |= self.untold | {number}
        self.latest = {number}
        self.harmed.discard("LATEST")

    @rule()
    def a_checkpoint_is_taken(self):
        before = find_checkpoint(self.root)
        collection = self.begin()
        self.store.publish(collection)
        self.has_published(collection.sequence)
        told, kept = self.store.prune(), self.folders()
        holds(4, told == (), f"it could not be pruned: {told}")
        all_hold((3, 4), collection.sequence in kept, "what LATEST names was pruned")
        holds(4, len(kept) <= 2, f"{kept} are kept")
        all_hold((3, 4), kept <= self.published, f"tries that were never published are kept: {kept}")
        if before.checkpoint is not None and not before.skipped:
            second = before.checkpoint.collection.sequence
            all_hold((4, 10), second in kept, f"{second} was whole, and was pruned")
        rests = [name for name in self.names() if is_rest(self.root / name)]
        holds(4, not rests, f"leavings of ours: {rests}")
        self.store.discard(collection.sequence)  # by a confused caller
        holds(3, collection.sequence in self.folders(), "what LATEST names was discarded")

    @rule()
    def a_try_fails(self):
        collection = self.begin()
        told = self.store.discard(collection.sequence)
        holds(4, told == () and collection.sequence not in self.folders(), f"a try that failed stays: {told}")

    @rule()
    def a_try_ends_right_before_it_would_count(self):
        with contextlib.suppress(LockedError):
            Store(self.root, confirm=taken_over).publish(self.begin())

    @rule(steps=steps, power=st.booleans(), kept=st.sampled_from([0.0, 0.5, 1.0]))
    def a_death_in_a_checkpoint(self, steps, power, kept):
        with contextlib.suppress(DeathError), DyingDisk(self.root, steps, power=power, kept=kept):
            collection = self.begin()
            self.latest.add(collection.sequence)
            self.store.publish(collection)
            self.has_published(collection.sequence)
            self.store.prune()
        self.look_at_latest()
        self.store = Store(self.root)

    @rule(steps=st.integers(14, 24), power=st.booleans())
    def a_death_after_a_try_that_failed(self, steps, power):
        with contextlib.suppress(DeathError), DyingDisk(self.root, steps, power=power):
            self.store.discard(self.begin().sequence)
        self.store = Store(self.root)

    @rule(steps=steps | st.just(SYNC_OF_LATEST))
    def an_error_of_the_disk(self, steps):
        latest = self.bytes_of_latest()
        collection = None
        with DyingDisk(self.root, steps, fails=True):
            try:
                collection = self.begin()
                published = self.store.publish(collection)
                self.has_published(collection.sequence)
                there = self.folders()
                self.store.prune()
                told = "pruned, and after a power cut LATEST may be the one before"
                holds(3, published.unsynced is None or self.folders() == there, told)
            except (StorageError, OSError):
                holds(3, self.bytes_of_latest() == latest, "not published, and LATEST has moved")
                if collection is not None:
                    self.store.discard(collection.sequence)

    @rule(steps=st.none() | st.integers(0, 16))
    def a_fresh_run(self, steps):
        with contextlib.suppress(DeathError), DyingDisk(self.root, steps):
            self.latest.add(None)
            self.store.forget()
            self.latest = {None}
        self.look_at_latest()
        self.store = Store(self.root)

    def look_at_latest(self):
        """What a death has left."""
        with contextlib.suppress(DamageError):
            latest = read_latest(self.root)
            if latest is None:
                holds(3, None in self.latest, "LATEST is gone")
                self.latest, self.published, self.untold = {None}, set(), set()
                self.harmed.discard("LATEST")
            else:
                holds(3, latest.sequence in self.latest, f"LATEST names {latest.sequence}, of {self.latest}")
                self.has_published(latest.sequence)

    def bytes_of_latest(self):
        path = self.root / "LATEST"
        return path.read_bytes() if path.exists() else None

    @rule(name=st.sampled_from([".tmp-ckpt-000009", ".trash-ckpt-000003", "LATEST.77.tmp", ".LATEST.tmp"]))
    def something_of_a_dead_process(self, name):
        path = self.root / name
        path.write_text("half") if name.endswith(".tmp") else path.mkdir(exist_ok=True)

    @rule()
    def the_collector_starts_again(self):
        self.store = Store(self.root)
        self.store.find()

    @precondition(lambda self: self.folders())
    @rule(nth=st.integers(0, 20), harm=st.sampled_from(["zero", "chop", "unlink"]))
    def a_stranger_damages_a_file(self, nth, harm):
        files = [file for number in self.folders() for file in (self.root / folder_name(number)).rglob("*.*")]
        if not files:
            return
        file = sorted(files)[nth % len(files)]
        self.harmed.add(file.relative_to(self.root).parts[0])
        if harm == "unlink":
            file.unlink()
        else:
            file.write_bytes(b"\0" * file.stat().st_size if harm == "zero" else file.read_bytes()[:-3])

    @precondition(lambda self: (self.root / "LATEST").exists())
    @rule(content=st.sampled_from([b"", b"\0\0\0"]))
    def a_stranger_damages_the_pointer(self, content):
        (self.root / "LATEST").write_bytes(content)
        self.harmed.add("LATEST")

    @invariant()
    def what_is_found_is_whole_and_what_latest_names(self):
        rung = find_checkpoint(self.root)
        for skipped in rung.skipped:
            doubtful = "LATEST" in self.harmed or sequence_of(skipped.name) in self.untold
            holds(3, doubtful or skipped.name in self.harmed, str(skipped))
        if rung.checkpoint is None:
            holds(3, None in self.latest or self.harmed, "nothing is found of what was published")
            return
        found = rung.checkpoint.folder.name
        all_hold((3, 10), found not in self.harmed, f"{found} is damaged, and passes for whole")
        number = rung.checkpoint.collection.sequence
        if "LATEST" not in self.harmed:
            possible = self.published if rung.skipped else self.latest
            all_hold((3, 10), number in possible, f"{number} is gone on from, and LATEST named {possible}")

    @invariant()
    def what_is_not_ours_is_untouched(self):
        for name, data in FOREIGN.items():
            there = (self.root / name).exists() and (self.root / name).read_bytes() == data
            holds(4, there, f"{name}, which is not ours, is gone or changed")


def test_a_collector_whose_directory_another_host_has_taken_publishes_nothing(tmp_path):
    """A lock may hold on one host only."""
    root = tmp_path / "checkpoints"
    directory = trio.run(partial(open_directory, root, wait_s=None, warn=pytest.fail))
    directory.raise_epoch(0)
    ours = read_lock(root)
    (root / LOCK).write_bytes(msgspec.json.encode(msgspec.structs.replace(ours, epoch=ours.epoch + 1)))
    store = Store(root, confirm=directory.confirm)
    with contextlib.suppress(LockedError):
        store.publish(draft(store, [EpisodeId("0-0")], [("environment", "env")]))
    directory.close()
    holds(3, not (root / "LATEST").exists(), "it has moved LATEST")


def test_every_start_has_an_epoch_above_all_that_anybody_has_seen(tmp_path):
    """Participants obey the highest: who is no higher cannot open what a dead collector has closed."""
    before = 0
    for seen in (0, 0, 7, 0, 3):
        directory = trio.run(partial(open_directory, tmp_path / "c", wait_s=None, warn=pytest.fail))
        epoch = directory.raise_epoch(seen)
        directory.close()
        all_hold((2, 8), epoch > max(before, seen), f"{epoch} follows {before}, and {seen} was seen")
        before = epoch


@pytest.mark.parametrize("harm", ["zero", "chop", "unlink"])
def test_what_a_start_has_passed_over_is_not_kept_in_place_of_what_it_went_on_from(harm):
    lives = Lives()
    for _ in range(2):
        lives.a_checkpoint_is_taken()
    older, newer = sorted(lives.folders())
    files = sorted((lives.root / folder_name(newer)).rglob("*.*"))
    before = len(sorted((lives.root / folder_name(older)).rglob("*.*")))
    lives.a_stranger_damages_a_file(nth=before + len(files) - 1, harm=harm)
    assert lives.harmed == {folder_name(newer)}
    lives.the_collector_starts_again()
    lives.a_checkpoint_is_taken()
    holds(10, older in lives.folders(), f"{older} was gone on from, and only the damaged {newer} is kept")
    lives.teardown()


TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(
    hypothesis.settings.default,
    max_examples=max(50, hypothesis.settings.default.max_examples // 4),
    stateful_step_count=12,
)
