"""A start on what is there: all that a run reads and changes before it asks a server, by its own code."""

import contextlib
from collections.abc import Coroutine
from typing import TypeVar

from attrs import frozen

from triocollect.checkpoint.directory import open_directory
from triocollect.checkpoint.plan import plan
from triocollect.checkpoint.store import Store
from triocollect.collector.lock import lock_output
from triocollect.collector.lock_directory import LockedDirectory
from triocollect.collector.set_out import OwnStore, set_out
from triocollect.collector.taking_control import begin_log, look_back
from triocollect.config.settings import Config
from triocollect.durable import AppendFile
from triocollect.flight.ledger import Ledger

T = TypeVar("T")


@frozen
class Started:
    """What a start found. Rollouts by id: `done` ones, and the next attempt of those `left`.

    `continued`: those that go on from the checkpoint `sequence`. `words`: what it warned of.
    """

    done: frozenset[str]
    left: dict[str, int]
    expected: int
    sequence: int | None
    continued: frozenset[str]
    words: tuple[str, ...]


def start(config: Config) -> Started:
    """Raises what a start raises. Nothing in it waits: the locks are free."""
    with contextlib.ExitStack() as at_the_end:
        return _at_once(_start(config, at_the_end))


def _at_once(work: Coroutine[None, None, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a start waits for something")


async def _start(config: Config, at_the_end: contextlib.ExitStack) -> Started:
    words: list[str] = []
    assert config.checkpoint is not None
    directory = await open_directory(config.checkpoint.dir, wait_s=None, warn=words.append)
    at_the_end.callback(directory.close)
    store = Store(config.checkpoint.dir, confirm=directory.confirm)
    locked = await lock_output(config.output.path, wait_s=None, warn=words.append)
    output = AppendFile(locked.path, descriptor=locked.descriptor)
    at_the_end.callback(output.close)
    own = OwnStore(store, directory.run)
    outset = set_out(config, output, None, lambda event: words.append(str(event)), own)
    assert outset is not None
    at_the_end.callback(outset.sinks.failures.close)
    nobody = {"token": "", "client": None, "inbox": None}  # is spoken to
    ours = LockedDirectory(config=config.checkpoint, directory=directory, store=store, **nobody)
    left_behind = look_back(ours, outset)
    at_the_end.callback(begin_log(ours, outset, left_behind, seen=0).close)
    outset.record_directory()
    store.begin(store.next_sequence())
    whole, history = left_behind.rung.checkpoint, left_behind.history
    ledger = Ledger(history.highest(), floor=history.start)
    episodes = () if whole is None else whole.collection.continued
    becoming = plan(episodes, history.tried, floor=history.floor, start=history.start).becoming
    done, left = set[str](), dict[str, int]()
    for row in outset.read_rows():
        if outset.survey.is_left(row.key):
            continued = becoming.get(row.key)
            left[row.rollout_id] = ledger.next_attempt(row.key) if continued is None else continued.attempt
        else:
            done.add(row.rollout_id)
    return Started(
        done=frozenset(done),
        left=left,
        expected=outset.survey.expected,
        sequence=None if whole is None else whole.collection.sequence,
        continued=frozenset(one.rollout_id for one in becoming.values()),
        words=(*words, *left_behind.warnings()),
    )
