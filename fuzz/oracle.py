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

from attrs import evolve, frozen

from fuzz.account import STOPPED, Call, Effect, Life, Line, capture_key
from fuzz.boundaries import Boundary, Checkpoint, Verdict
from fuzz.invariants import said
from fuzz.rules import BY_CHANCE, earned, leads_to
from fuzz.states import State


@frozen
class Whole:
    """What one rollout takes when nobody interrupts it.

    `by_chance`: with another seed it takes something else, so that only its own account can judge it.
    """

    changes: tuple[int | str, ...]
    calls: int
    tokens: int
    reward: float | None
    has_session: bool = True
    by_chance: bool = False


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

    def _attempt(self, rollout_id: str, attempt: int, *, is_first: bool) -> "_Attempt":
        life, key = self._life, capture_key(rollout_id, attempt)
        new = {line.capture_key: line for line in life.lines[len(self._before.lines) :]}
        kept = None if self._cut is None else self._cut.kept.get(rollout_id)
        effects = [one for one in life.effects.get(rollout_id, ()) if one.attempt == attempt]
        calls, whole = life.calls.get(key, []), self._wholes[rollout_id]
        begun = effects[0].effect == "seed" if effects else not whole.has_session and bool(calls)
        return _Attempt(
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


@frozen(kw_only=True)
class _Attempt:
    """What one attempt did in the life that it had.

    `origin`: the boundary that it goes on from; `kept`: the one at which a checkpoint of its own life holds
    it, for good where that life was `stopped` by it; `line`: its result.
    """

    key: str
    whole: Whole
    origin: Boundary | None
    effects: list[Effect]
    calls: list[Call]
    kept: Boundary | None
    stopped: bool
    line: Line | None

    def violations(self) -> Iterator[str]:
        yield from (f"{self.key}: {what}" for what in (*self._of_effects(), *self._of_calls()))

    def _of_effects(self) -> Iterator[str]:
        states = [None if self.origin is None else self.origin.state]
        verdict = None if self.origin is None else self.origin.verdict
        if verdict is not None and self.effects:
            yield said(12, f"{len(self.effects)} effects although it was judged: {verdict}")
        for effect in self.effects:
            yield from _step(states[-1], effect, self.whole)
            states.append(effect.state)
        if self.kept is not None:
            yield from _keeping(self.kept, states, stopped=self.stopped)
        if self.line is not None:
            yield from _result(self.line, states[-1] if verdict is None else verdict, self.whole)

    def _of_calls(self) -> Iterator[str]:
        whole = self._measure()
        had, had_tokens = (0, 0) if self.origin is None else _had(self.origin, whole)
        calls, tokens = had + len(self.calls), had_tokens + sum(call.output_tokens for call in self.calls)
        if self.line is not None and (calls, tokens) != (whole.calls, whole.tokens):
            yield said(11, f"{calls} calls, {tokens} tokens; the row takes {whole.calls} and {whole.tokens}")
        if calls > whole.calls and not whole.by_chance:
            yield said(11, f"{calls} calls are more than the {whole.calls} that there are to make")
        if self.kept is None:
            return
        known, _tokens = _known(self.kept, whole)
        if known > calls:
            yield said(13, f"the checkpoint keeps {known} calls, and {calls} were made")
        if self.stopped and calls > known + 1:
            yield said(11, f"the stop's checkpoint keeps {known} calls of {calls}: more than one is lost")
        if calls > known:  # who was killed has no line of the call that was under way
            yield from self._of_cut()

    def _of_cut(self) -> Iterator[str]:
        """Whether what a stop's checkpoint keeps of a call under way is all that there was of it."""
        cut = None if self.kept is None else self.kept.cut
        if not self.stopped or cut is None or cut.whole or not self.calls:
            return
        made = self.calls[-1].continued_at + self.calls[-1].output_tokens
        if made != cut.tokens:
            yield said(11, f"the stop's checkpoint keeps {cut.tokens} tokens of a call, and {made} were made")

    def _measure(self) -> Whole:
        """What there is to do; of a game of chance what there was, as its moves and its result tell."""
        if not self.whole.by_chance:
            return self.whole
        begun = () if self.origin is None else (self.origin.verdict or self.origin.state,)
        *_, last = None, *begun, *(effect.state for effect in self.effects)
        moves = 0 if last is None else last.effects
        return evolve(self.whole, calls=moves + 1, tokens=0 if self.line is None else self.line.tokens)


def _known(boundary: Boundary, whole: Whole) -> tuple[int, int]:
    """Calls and tokens up to a boundary; whoever was judged makes none any more."""
    if boundary.verdict is not None:
        return whole.calls, whole.tokens
    return boundary.calls, boundary.tokens


def _had(boundary: Boundary, whole: Whole) -> tuple[int, int]:
    """The same, with what goes on from there has to do no more: tokens of a cut, or all of a call."""
    calls, tokens = _known(boundary, whole)
    if boundary.verdict is not None or boundary.cut is None:
        return calls, tokens
    return calls + boundary.cut.whole, tokens + boundary.cut.tokens


def _step(state: State | None, effect: Effect, whole: Whole) -> Iterator[str]:
    """Whether one effect follows from the state before; None: before the seed."""
    after = effect.state
    if effect.effect == "seed":
        if state is not None:
            yield said(12, f"the seed changed: begun anew after {state.effects} effects")
        if after.effects != 0:
            yield said(12, f"a seed comes with {after.effects} effects")
        return
    if state is None:
        yield said(12, f"effect {after.effects} without a seed")
        return
    if after.seed != state.seed:
        yield said(12, f"the seed changed at effect {after.effects}")
    if after.effects != state.effects + 1:
        yield said(
            12, f"effect {after.effects} follows effect {state.effects}: repeated, or some are missing"
        )
    if not leads_to(effect.source, state, effect.effect, effect.arguments, after):
        yield said(13, f"{state.value} and {effect.change} make {after.value}")
    if not whole.by_chance and effect.change not in whole.changes[after.effects - 1 : after.effects]:
        yield said(13, f"effect {after.effects} is {effect.change}, of {whole.changes}")


def _keeping(kept: Boundary, states: list[State | None], *, stopped: bool) -> Iterator[str]:
    """Whether a checkpoint keeps a state that was; the last one, where a stop took it."""
    last = states[-1]
    if kept.state is None and kept.verdict is not None:
        if last is not None and _told(last) != (kept.verdict.final_value, kept.verdict.effects):
            yield said(13, f"the checkpoint keeps {kept.verdict}, and {last} was reached")
        return
    if kept.state not in states:
        yield said(13, f"the checkpoint keeps {kept.state}, which never was")
    if stopped and kept.state != last:
        yield said(12, f"the stop's checkpoint keeps {kept.state}, and {last} was reached")


def _result(line: Line, last: State | Verdict | None, whole: Whole) -> Iterator[str]:
    """Whether the result tells what was done, and what was done is what there is to do."""
    reward = whole.reward
    if whole.has_session:
        if last is None:
            yield said(13, "a result without a seed")
            return
        final, effects = _told(last) if isinstance(last, State) else (last.final_value, last.effects)
        if effects != len(whole.changes) and not whole.by_chance:
            yield said(13, f"{effects} effects, of {len(whole.changes)}")
        start = None if final is None else final - sum(whole.changes)
        if (line.start_value, line.final_value, line.effects) != (start, final, effects):
            yield said(13, f"the result says {line}, the environment {last}")
        if whole.by_chance:
            reward = earned(last) if isinstance(last, State) else last.reward
    if line.reward != reward:
        yield said(13, f"the reward is {line.reward}, not {reward}")


def _told(state: State) -> tuple[int | None, int]:
    """What a result says of a state: a counter's value, and how many effects there were."""
    return state.value if isinstance(state.value, int) else None, state.effects


def _new_checkpoint(before: Life, life: Life) -> Checkpoint | None:
    """What LATEST names, if this life took it."""
    earlier, now = before.checkpoint, life.checkpoint
    return None if now is None or (earlier is not None and earlier.id == now.id) else now


def _twice(names: Iterable[str]) -> list[str]:
    seen, twice = set[str](), list[str]()
    for name in names:
        twice += [name] if name in seen else []
        seen.add(name)
    return twice
