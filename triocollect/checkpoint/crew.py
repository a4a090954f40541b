"""What a checkpoint is taken with, and the checkpoint under way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio
from attrs import frozen

from triocollect.checkpoint.airspace import Airspace, Blocking
from triocollect.checkpoint.coordination import Coordination
from triocollect.checkpoint.store import Store
from triocollect.events import Listener
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.telemetry import span


@frozen(kw_only=True)
class Crew:
    """The parts of a run that take its checkpoints.

    `clock` is the wall clock: UTC, ISO 8601. `moment` is the host's monotonic clock in seconds, which whoever
    asks from another process reads too.
    """

    air: Airspace
    coordination: Coordination
    store: Store
    record: Callable[
        [CheckpointOutcome], None
    ]  # keeps an outcome where other programs can read it; may block
    run: str
    output: str  # the run of the output
    input_sha256: str
    timeout_s: float
    blocking: Blocking
    listener: Listener
    clock: Callable[[], str]
    moment: Callable[[], float]


class UnderWay:
    """One try. Its phases are bounded by `scope`; a stop may turn it into its own until it resumes."""

    def __init__(self, *, by: float, stop: bool) -> None:
        self.scope: Final = trio.CancelScope(deadline=by)
        self.resume_scope: Final = trio.CancelScope()
        self.is_stop = stop
        self.given_up = False
        self.overtaken = False  # the run was told to stop while rows were on their way again
        self._resuming = False

    def stop(self, by: float) -> bool:
        """Become the stop, unless rows are on their way again."""
        if self._resuming:
            self.overtaken = True
            self.resume_scope.cancel()  # the stop's checkpoint ends this one on whoever has not heard yet
            return False
        self.is_stop = True
        self.scope.deadline = min(self.scope.deadline, by)
        return True

    def give_up(self) -> None:
        """Leave it; a publish that has begun is finished first."""
        self.given_up = True
        self.scope.cancel()
        self.resume_scope.cancel()

    def begin_to_resume(self) -> bool:
        """Whether rows may go on now; from here on a stop needs a checkpoint of its own."""
        self._resuming = not (self.is_stop or self.given_up)
        return self._resuming

    def left_s(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.scope.deadline - trio.current_time())


class Laps:
    """How long each phase took, in seconds."""

    def __init__(self) -> None:
        self.seconds: Final[dict[str, float]] = {}

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """The body is that phase, or a part of it."""
        began = trio.current_time()
        try:
            with span(f"checkpoint.{phase}"):
                yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + trio.current_time() - began
