"""Drive an episode through its steps, telling the boundary after each."""

from collections.abc import Awaitable, Callable

import msgspec
import trio
from msgspec.structs import replace

from triocollect.errors import PeerError
from triocollect.servers.environment.episode import STEPS, Episode, SourcePeers, end_sessions
from triocollect.servers.environment.orders import Stage


class Broken(msgspec.Struct, frozen=True):
    """An episode that ended without a record: in which stage, why, and whether another try may go better."""

    stage: Stage
    reason: str
    passing: bool


async def drive(
    episode: Episode, around: SourcePeers, at_boundary: Callable[[Episode], Awaitable[None]]
) -> Episode | Broken:
    """Run an episode from its boundary to its end.

    `at_boundary` gets the episode after each step, and may wait. An episode that breaks, or is cancelled, has
    its sessions ended before this returns.
    """
    ended = False
    try:
        while episode.step < len(STEPS):
            step = STEPS[episode.step]
            try:
                after = await step.run(episode, around)
            except PeerError as error:
                return Broken(step.stage, f"{step.name}: {error}", error.passing)
            episode = replace(after, step=episode.step + 1)
            await at_boundary(episode)
        ended = True
        return episode
    finally:
        if not ended:
            with trio.CancelScope(shield=True):  # bounded inside
                await end_sessions(episode, around)
