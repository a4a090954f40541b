"""Whether the lives of a run, taken together, are equal to one life that nobody interrupted.

Judged by the accounts of others than the collector; the answer is a list of what is wrong, in words and with
the number of the invariant, empty when they are equal. No two sessions of an environment begin alike, so what
was played again shows. Rows of verifiers have no session; of them only the calls are judged, and the results.

A life continues what the checkpoint keeps that its predecessor left behind, from exactly there: the next
attempt, the same seed, the next change, the next call. What is kept nowhere starts from its seed. A life that
was stopped has done nothing beyond its checkpoint, but for one call of each rollout that was under way. What
a life that was killed did beyond its checkpoint is lost.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fuzz.account import STOPPED, Call, Life, capture_key
from fuzz.attempts import Attempt, Whole
from fuzz.boundaries import Boundary, Checkpoint
from fuzz.invariants import said
from fuzz.rules import BY_CHANCE


def uninterrupted(life: Life) -> dict[str, Whole]:
    """The measure: the same rows in one life, at any speed."""
    wholes = {}
    for line in life.lines:
        calls = life.calls[line.capture_key]
        effects = life.effects.get(line.rollout_id, ())
        wholes[line.rollout_id] = Whole(
            changes=tuple(effect.change for effect in effects[1:]),
            calls=len(calls),
            tokens=sum(call.output_tokens for call in calls),
            reward=line.reward,
            has_session=bool(effects),
            by_chance=any(effect.source in BY_CHANCE for effect in effects),
        )
    return wholes


def judge(lives: Sequence[Life], wholes: Mapping[str, Whole]) -> list[str]:
    """What is wrong, life by life. The last one has to have finished every row."""
    before, highest, found = Life(), dict[str, int](), list[str]()
    for nth, life in enumerate(lives, 1):
        found += (f"life {nth}: {what}" for what in _Life(before, life, highest, wholes).violations())
        for rollout_id, attempts in life.sent.items():
            highest[rollout_id] = max(highest.get(rollout_id, -1), *attempts)
        before = life
    return found + [said(1, f"{row} has no result") for row in sorted(wholes.keys() - before.finished)]


class _Life:
    def __init__(
        self, before: Life, life: Life, highest: Mapping[str, int], wholes: Mapping[str, Whole]
    ) -> None:
        self._before, self._life, self._highest, self._wholes = before, life, highest, wholes
        self._cut = _new_checkpoint(before, life)
        self._is_stop = life.code == STOPPED and self._cut is not None and self._cut.id == life.published
        self._kept: Mapping[str, Boundary] = {}
        if before.checkpoint is not None:
            self._kept = {
                rollout_id: boundary
                for rollout_id, boundary in before.checkpoint.kept.items()
                if rollout_id not in before.finished
            }

    def violations(self) -> Iterator[str]:
        yield from self._life.faults
        yield from self._of_files()
        yield from self._of_sends()
        yield from self._of_latest()
        for rollout_id, attempts in self._life.sent.items():
            for attempt in dict.fromkeys(attempts):
                yield from self._attempt(rollout_id, attempt, is_first=attempt == attempts[0]).violations()

    def _attempt(self, rollout_id: str, attempt: int, *, is_first: bool) -> Attempt:
        life, key = self._life, capture_key(rollout_id, attempt)
        new = {line.capture_key: line for line in life.lines[len(self._before.lines) :]}
        kept = None if self._cut is None else self._cut.kept.get(rollout_id)
        effects = [one for one in life.effects.get(rollout_id, ()) if one.attempt == attempt]
        calls, whole = life.calls.get(key, []), self._wholes[rollout_id]
        begun = effects[0].effect == "seed" if effects else not whole.has_session and _is_all(calls, whole)
        return Attempt(
            key=key,
            whole=whole,
            origin=self._kept.get(rollout_id) if is_first and not (life.anew and begun) else None,
            effects=effects,
            calls=calls,
            kept=None if kept is None or kept.attempt != attempt else kept,
            stopped=self._is_stop,
            line=new.get(key),
        )

    # -- what is written ------------------------------------------------------------------------------------

    def _of_files(self) -> Iterator[str]:
        before, life = self._before, self._life
        if life.lines[: len(before.lines)] != before.lines:
            yield said(1, "lines of the output are gone or changed")
        if life.failures[: len(before.failures)] != before.failures:
            yield said(15, "lines of the sidecar are gone or changed")
        yield from (
            said(1, f"{row} has more than one result")
            for row in _twice(line.rollout_id for line in life.lines)
        )
        written = {line.capture_key for line in (*life.lines, *life.failures)}
        yield from (
            said(15, f"{key} was acknowledged and is not written") for key in life.acknowledged - written
        )

    def _of_sends(self) -> Iterator[str]:
        life = self._life
        for rollout_id, attempts in life.sent.items():
            if rollout_id in self._before.finished:
                yield said(1, f"{rollout_id} was sent although it had a result")
            if min(attempts) <= self._highest.get(rollout_id, -1):
                yield said(2, f"{rollout_id}: attempt {min(attempts)} was used before this life")
            if attempts != sorted(attempts):
                yield said(2, f"{rollout_id}: attempts go back: {attempts}")
        sent = {capture_key(row, attempt) for row, attempts in life.sent.items() for attempt in attempts}
        ran = set(life.calls)
        for rollout_id, effects in life.effects.items():
            attempts = [effect.attempt for effect in effects]
            ran.update(capture_key(rollout_id, attempt) for attempt in attempts)
            if attempts != sorted(attempts):
                yield said(2, f"{rollout_id}: attempts ran side by side: {attempts}")
        yield from (said(2, f"{key} ran, and no log says that it was sent") for key in sorted(ran - sent))

    def _of_latest(self) -> Iterator[str]:
        before, now = self._before.checkpoint, self._life.checkpoint
        if before is not None and (now is None or now.sequence < before.sequence):
            yield said(3, "LATEST went back")
        if self._cut is not None and self._life.code >= 0:
            yield from (said(4, rest) for rest in self._life.rests)
        for rollout_id, boundary in ({} if self._cut is None else self._cut.kept).items():
            if boundary.attempt not in self._life.sent.get(rollout_id, ()):
                yield said(
                    6, f"{rollout_id} is kept at attempt {boundary.attempt}, which this life did not send"
                )


def _new_checkpoint(before: Life, life: Life) -> Checkpoint | None:
    """What LATEST names, if this life took it."""
    earlier, now = before.checkpoint, life.checkpoint
    return None if now is None or (earlier is not None and earlier.id == now.id) else now


def _is_all(calls: Sequence[Call], whole: Whole) -> bool:
    """Whether so much was generated that nothing was there before: what goes on after a cut makes less."""
    return bool(calls) and sum(call.output_tokens for call in calls) >= whole.tokens


def _twice(names: Iterable[str]) -> list[str]:
    seen, twice = set[str](), list[str]()
    for name in names:
        twice += [name] if name in seen else []
        seen.add(name)
    return twice
