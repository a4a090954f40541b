"""Drive an episode through its steps, telling the boundary after each."""

from collections.abc import Callable

import msgspec
import trio
from msgspec.structs import replace

from triocollect.errors import PeerError
from triocollect.participant import Work
from triocollect.servers.environment.episode import STEPS, Episode, SourcePeers, Step, end_sessions
from triocollect.servers.environment.run_requests import Stage


class Broken(msgspec.Struct, frozen=True):
    """An episode that ended without a record: in which stage, why, and whether another try may go better.

    `lost`: a process that had a part of it is gone, so that nothing can be said of how it went.
    """

    stage: Stage
    reason: str
    passing: bool
    lost: bool = False


async def drive(
    episode: Episode, around: SourcePeers, work: Work, at_boundary: Callable[[Episode], None]
) -> Episode | Broken:
    """Run an episode from its boundary to its end.

    `at_boundary` gets the episode after each step. While the door is closed the episode rests at a boundary,
    and it neither ends nor breaks. One that breaks, or is cancelled, has its sessions ended before this
    returns.
    """
    ended = False
    try:
        while episode.step < len(STEPS):
            step = STEPS[episode.step]
            try:
                after = await _run(step, episode, around, work)
            except PeerError as error:
                await work.boundary(step.name)
                return Broken(step.stage, f"{step.name}: {error}", error.passing, error.lost)
            episode = replace(after, step=episode.step + 1)
            at_boundary(episode)
            await work.boundary(f"after {step.name}")
        ended = True
        return episode
    finally:
        if not ended:
            with trio.CancelScope(shield=True):  # bounded inside
                await end_sessions(episode, around)


async def _run(step: Step, episode: Episode, around: SourcePeers, work: Work) -> Episode:
    if step.kind == "wait":
        work.busy(step.name)
        return await step.run(episode, around)
    async with work.resting(step.name):
        return await step.run(episode, around)
