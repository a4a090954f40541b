"""What follows a try: its outcome is put on record, and folders that nobody needs any more go."""

from collections.abc import Callable

import msgspec
import trio

from triocollect.checkpoint.airspace import answer_of
from triocollect.checkpoint.crew import Crew
from triocollect.errors import StorageError
from triocollect.events import Note
from triocollect.protocol.manifests import CheckpointOutcome


async def record(crew: Crew, outcome: CheckpointOutcome) -> None:
    """Where another shell waits for it. The checkpoint stands whatever comes of this.

    Without a deadline, as a thread's work cannot be left: only a hung disk makes it longer than a moment.
    """
    if outcome.ended is msgspec.UNSET:
        outcome = msgspec.structs.replace(
            outcome, began=crew.moment(), ended=crew.clock(), epoch=crew.coordination.epoch
        )
    with trio.CancelScope(shield=True):
        try:
            await crew.blocking(lambda: crew.record(outcome))
        except StorageError as error:
            crew.listener(Note(f"the outcome of the checkpoint is not on record: {error}", "warning"))


async def tidy(crew: Crew, work: Callable[[], tuple[str, ...]]) -> None:
    """Work on old folders: what cannot be done now is done after the next checkpoint."""
    for trouble in await answer_of(crew.blocking, work):
        crew.listener(Note(trouble, "warning"))
