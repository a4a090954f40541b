"""What a control call means, given the run, the epoch and the operations that came before it. Pure.

A caller that lost a reply asks again, a network delivers late, a collector dies and another one begins: so a
participant keeps who collects (`run`, `epoch`), the highest operation that has ended, and the one it is at.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, final

from triocollect.protocol import messages
from triocollect.protocol.messages import Answer, Call
from triocollect.protocol.phases import Event, Phase, allows
from triocollect.protocol.refusals import Code


class Act(NamedTuple):
    """Do it now."""


class Replay(NamedTuple):
    """It was done; this was the answer."""

    answer: Answer


class EndOlderThenAct(NamedTuple):
    """End what is open, exactly as an abort does, because of `event`; then ask again."""

    event: Event


class Later(NamedTuple):
    """An install is under way: ask again when it has ended."""


class Refuse(NamedTuple):
    """Do nothing, and say why."""

    code: Code
    detail: str


Verdict: TypeAlias = Act | Replay | EndOlderThenAct | Later | Refuse

_EVENTS: Final[Mapping[type[Call], Event]] = {
    messages.Prepare: Event.PREPARE,
    messages.Commit: Event.COMMIT,
    messages.Restore: Event.RESTORE,
    messages.Retire: Event.RETIRE,
}


def arguments(call: Call) -> object:
    """What a repeat has to have in common with the first: all but the budget and the lease.

    A retire has none: its episodes come in batches, and doing one again does the same.
    """
    match call:
        case messages.Commit():
            return call.checkpoint_id, call.directory, frozenset(call.scope), call.stop
        case messages.Restore():
            return call.checkpoint_id, call.directory, call.manifest_sha256, frozenset(call.scope)
        case _:
            return None


@final
class Operations:
    """The collector that is obeyed, and its operations."""

    def __init__(self) -> None:
        self.run: str | None = None
        self.epoch = 0
        self.ended = 0  # this operation and all below it can never act again
        self.current: int | None = None
        self._begun: Final[dict[type[Call], object]] = {}  # arguments of the current operation's calls
        self._answers: Final[dict[type[Call], Answer]] = {}

    def meet(self, call: Call, *, live: bool) -> Refuse | None:
        """Why the caller is not obeyed. `live`: work is under way here, so nobody else may take over."""
        if call.epoch < self.epoch:
            return Refuse(Code.STALE_EPOCH, f"epoch {call.epoch} is over: epoch {self.epoch} collects here")
        if self.run in {None, call.run} or (call.epoch > self.epoch and not live):
            return None
        return Refuse(Code.OTHER_RUN, f"this server works for run {self.run}, not for {call.run}")

    def is_new(self, call: Call) -> bool:
        """Whether the call is the first of its epoch: what a lower one left open has to end."""
        return self.run is None or call.epoch > self.epoch

    def take_over(self, call: Call) -> bool:
        """Obey this caller from now on. Answers whether its run is another one than before."""
        other = self.run not in {None, call.run}
        self.run, self.epoch, self.ended = call.run, call.epoch, 0
        self._at(None)
        return other

    def judge(self, call: Call, phase: Phase) -> Verdict:
        """What to do for a caller that `meet` let pass, in the present epoch."""
        if isinstance(call, messages.Hello | messages.Resume):
            return Act()  # neither is ever out of turn: a resume of what is over changes nothing
        if call.operation <= self.ended:
            return Refuse(
                Code.STALE_CHECKPOINT, f"operation {call.operation} is over, as all are up to {self.ended}"
            )
        if call.operation != self.current:
            return _newer(call, phase)
        if type(call) in self._begun and self._begun[type(call)] != arguments(call):
            return Refuse(
                Code.CHECKPOINT_CONFLICT, f"operation {call.operation} was begun with other arguments"
            )
        if (answer := self._answers.get(type(call))) is not None:
            return Replay(answer)
        return _same(call, phase)

    def begin(self, call: Call) -> None:
        """Its operation is the current one; all before it are over."""
        if call.operation != self.current:
            self.ended = max(self.ended, call.operation - 1)
            self._at(call.operation)
        self._begun[type(call)] = arguments(call)

    def answered(self, call: Call, answer: Answer) -> None:
        """What repeats of the call get."""
        self._answers[type(call)] = answer

    def take_back(self, kind: type[Call]) -> None:
        """The answer does not hold any more."""
        self._answers.pop(kind, None)

    def is_current(self, call: Call) -> bool:
        """Whether the call's operation can still act."""
        return call.epoch == self.epoch and call.operation == self.current

    def end(self, operation: int) -> None:
        """This operation and all before it are over, known here or not."""
        self.ended = max(self.ended, operation)
        if self.current is not None and self.current <= self.ended:
            self._at(None)

    def _at(self, operation: int | None) -> None:
        self.current = operation
        self._begun.clear()
        self._answers.clear()


def _newer(call: Call, phase: Phase) -> Verdict:
    """A call of an operation above the current one."""
    if phase is Phase.OPEN:
        return _same(call, phase)
    if isinstance(call, messages.Prepare | messages.Restore):
        return EndOlderThenAct(Event.NEWER_OPERATION)
    return _out_of_turn(call, phase)


def _same(call: Call, phase: Phase) -> Verdict:
    """A call of the current operation, or of a new one while nothing is open."""
    if isinstance(call, messages.Forget):
        return Act() if phase is Phase.OPEN else _out_of_turn(call, phase)
    if allows(phase, _EVENTS[type(call)]):
        return Act()
    if isinstance(call, messages.Commit) and phase is Phase.PREPARING:
        return Refuse(Code.NOT_READY, "not everything stands at a boundary yet")
    if isinstance(call, messages.Retire) and phase is Phase.RESTORING:
        return Later()
    return _out_of_turn(call, phase)


def _out_of_turn(call: Call, phase: Phase) -> Refuse:
    return Refuse(Code.INVALID_PHASE, f"no {type(call).__name__.lower()} while {phase}")
