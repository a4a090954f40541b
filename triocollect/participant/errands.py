"""Work that outlives the call that asked for it: whoever asks again waits for the same one."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar, final

import anyio
from anyio.abc import TaskGroup

from triocollect.errors import DamageError, StateError, TriocollectError
from triocollect.participant.operations import Refuse
from triocollect.protocol.refusals import Code

_log: Final = logging.getLogger("triocollect.participant")

_ENDING: Final = Refuse(Code.COORDINATOR_UNAVAILABLE, "the server is ending")

A = TypeVar("A")


@final
class Errand(Generic[A]):
    """One piece of work in the lifespan's task group. What it raises becomes a refusal."""

    def __init__(self, tasks: TaskGroup, work: Callable[[], Awaitable[A | Refuse]]) -> None:
        self._work: Final = work
        self._done: Final = anyio.Event()
        self._result: A | Refuse = _ENDING
        tasks.start_soon(self._run)

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._done.is_set()

    async def result(self) -> A | Refuse:
        """What came of it. Waiting may be cancelled; the work goes on."""
        await self._done.wait()
        return self._result

    async def _run(self) -> None:
        try:
            self._result = await self._work()
        except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
            self._result = refuse(error)
        finally:
            self._done.set()


def refuse(error: Exception) -> Refuse:
    """What a failure is to the caller. One that is not ours is logged with its traceback."""
    if isinstance(error, TriocollectError):
        invalid = isinstance(error, StateError | DamageError)
        return Refuse(Code.INVALID_STATE if invalid else Code.COORDINATOR_UNAVAILABLE, str(error))
    _log.error("a participant's hook failed", exc_info=error)
    return Refuse(
        Code.COORDINATOR_UNAVAILABLE, f"the participant itself failed: {type(error).__name__}: {error}"
    )
