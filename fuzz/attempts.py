"""What one attempt of a rollout did in a life; whether it goes on where it began and does what there is."""

from collections.abc import Iterator

from attrs import evolve, frozen

from fuzz.account import Call, Effect, Line
from fuzz.boundaries import Boundary, Verdict
from fuzz.invariants import said
from fuzz.rules import earned, leads_to
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


@frozen(kw_only=True)
class Attempt:
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
        """In words, with the number of the invariant."""
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
