"""What has to be so after a cut, whatever it took: asked of what is left and of a start on that."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field, frozen

from fuzz.disk.results import DIRECTORY, Files, Named, Result, answered_in, named_in, results_in
from fuzz.disk.storage import Fact
from triocollect.protocol.ids import EpisodeId

OUTPUT: Final = "out.jsonl"
SIDECAR: Final = "out_failures.jsonl"
LOG: Final = f"{DIRECTORY}dispatched.jsonl"
MOST_KEPT: Final = 2


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


@define
class Facts:
    """What somebody had been told by then."""

    acknowledged: set[str] = field(factory=set)
    sent: dict[str, int] = field(factory=dict)  # the highest attempt of each rollout
    published: int = 0

    def take(self, fact: Fact) -> None:
        match fact.what:
            case "acknowledged":
                self.acknowledged.add(fact.of)
            case "sent" | "installed":
                rollout_id, _, attempt = fact.of.partition(":")
                self.sent[rollout_id] = max(int(attempt), self.sent.get(rollout_id, -1))
            case "freed":
                rollout_id, _, attempt = fact.of.partition(":")
                if self.sent.get(rollout_id) == int(attempt):
                    self.sent[rollout_id] -= 1
            case "published":
                self.published = int(fact.of)
            case "begins" if fact.of == "afresh":
                self.acknowledged.clear()
                self.published = 0
            case _:
                pass


def copied(facts: Facts) -> Facts:
    """As they are now."""
    return Facts(set(facts.acknowledged), dict(facts.sent), facts.published)


@frozen
class Seen:
    """A state, and what a start made of it. `started`: or in words why it did not.

    `after`: the output's bytes behind the start.
    """

    results: tuple[Result, ...]
    keys: frozenset[str]
    answered: frozenset[EpisodeId]  # and written nowhere
    named: Named
    started: Started | str
    whole_lines: bytes
    after: bytes

    @property
    def outcome(self) -> str:
        """In a word, for the tally."""
        if isinstance(self.started, str):
            return "does not start"
        if not self.started.left:
            return "nothing left"
        return "goes on from a checkpoint" if self.started.continued else "goes on from input"


def look(files: dict[str, bytes | None], started: Started | str, after: bytes) -> Seen:
    """Put together what can be seen once and asked at several points."""
    output, sidecar = files.get(OUTPUT) or b"", files.get(SIDECAR) or b""
    results = (*results_in(output), *results_in(sidecar))
    whole = output[: output.rfind(b"\n") + 1]
    return Seen(
        results,
        frozenset(one.capture_key for one in results),
        frozenset(answered_in(files.get(LOG) or b"")),
        named_in(files),
        started,
        whole,
        after,
    )


def broken(seen: Seen, facts: Facts, rows: int) -> Iterator[tuple[int, str]]:
    """Each invariant that does not hold, and what was seen."""
    yield from of_files(seen.keys, seen.named, facts)
    if isinstance(seen.started, str):
        yield 15, f"the next run does not start: {seen.started}"
        return
    yield from _of_start(seen, seen.started, facts, rows)


def of_files(keys: frozenset[str], named: Named, facts: Facts) -> Iterator[tuple[int, str]]:
    """What does not hold of the bytes that are left. `keys`: the episodes whose ends are written."""
    if lost := facts.acknowledged - keys:
        yield 1, f"{sorted(lost)} were acknowledged or left out of a checkpoint as finished, and are lost"
    if named.fault is not None:
        yield 3, named.fault
    elif (named.sequence or 0) < facts.published:
        yield 3, f"checkpoint {facts.published} was published, and LATEST names {named.sequence}"


def keys_in(files: Files) -> frozenset[str]:
    """The episodes whose ends are written."""
    results = (*results_in(files.get(OUTPUT) or b""), *results_in(files.get(SIDECAR) or b""))
    return frozenset(one.capture_key for one in results)


def _of_start(seen: Seen, started: Started, facts: Facts, rows: int) -> Iterator[tuple[int, str]]:
    done = {one.rollout_id for one in seen.results if one.failure is None}
    if again := done & started.left.keys():
        yield 1, f"{sorted(again)} have a result and would be sent again"
    if missing := started.done - {one.rollout_id for one in seen.results}:
        yield 1, f"{sorted(missing)} have no result and would never be sent"
    if not seen.after.startswith(seen.whole_lines):
        yield 1, "the start changed whole lines of the output"
    if seen.after and not seen.after.endswith(b"\n"):
        yield 1, "the next result would be written behind half a line"
    for rollout_id, attempt in started.left.items():
        if (sent := facts.sent.get(rollout_id, -1)) >= attempt:
            yield 2, f"{rollout_id} was sent as attempt {sent} and would be sent as {attempt}"
    if named_and_passed_over(seen.named, started):
        yield (
            3,
            f"LATEST names {seen.named.sequence}, a start goes on from {started.sequence}: {started.words}",
        )
    answered = {one.rollout_id for one in seen.results}
    continued = {
        one.rollout_id
        for one in seen.named.continued
        if all(other.attempt < one.attempt for other in seen.answered if other.rollout_id == one.rollout_id)
    } & started.left.keys() - answered
    if started.sequence == seen.named.sequence and (left_out := continued - started.continued):
        yield 10, f"{sorted(left_out)} are in the checkpoint that LATEST names, and would not go on from it"
    if started.expected != rows or len(started.done) + len(started.left) != rows:
        yield 15, f"{len(started.done)} finished and {len(started.left)} left are not {rows} rows"


def named_and_passed_over(named: Named, started: Started) -> bool:
    """Whether LATEST leads to something whole that a start did not take."""
    return named.fault is None and named.sequence is not None and started.sequence != named.sequence


def of_end(output: bytes, told: Iterable[Fact], before: Facts, rows: int) -> Iterator[tuple[int, str]]:
    """What does not hold of a run that went on to its end. `told` by it, `before` by those before it."""
    succeeded = Counter(one.rollout_id for one in results_in(output) if one.failure is None)
    if len(succeeded) != rows or set(succeeded.values()) != {1}:
        yield 1, f"{rows} rows have come to these results: {dict(succeeded)}"
    for fact in told:
        if fact.what in {"sent", "installed"}:
            rollout_id, _, attempt = fact.of.partition(":")
            if int(attempt) <= before.sent.get(rollout_id, -1):
                yield 2, f"{fact.of} was {fact.what}, after {before.sent}"
        elif fact.what == "pruned":
            names = fact.of.split()
            kept = [name for name in names if name.startswith("ckpt-")]
            if len(kept) > MOST_KEPT or any(name.endswith(".tmp") for name in names):
                yield 4, f"after a prune there are {names}"
        elif fact.what == "told" or (fact.what == "exit" and fact.of != "0"):
            yield 15, f"the run that nobody disturbed ended with {fact.of}"
