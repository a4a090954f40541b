"""The call of a restore: all install what a checkpoint continues, or it has failed."""

from collections.abc import Mapping, Sequence
from typing import Final

from triocollect.checkpoint.operation import Operation
from triocollect.checkpoint.participants import Participant, each
from triocollect.errors import CheckpointError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Installed, Restore, RestoredEpisode

_NAMED: Final = 5


class Installing(Operation):
    """A restore as the participants go through it."""

    async def install(
        self,
        *,
        checkpoint_id: str,
        directory: str,
        manifests: Mapping[Participant, str],
        scope: Sequence[RestoredEpisode],
    ) -> None:
        """Install `scope` on all of `manifests` (sha256 by participant) at once.

        Raises CheckpointError; then some may have installed it: resume, and retire what it was to become.
        """
        self.boots.update((participant, participant.boot) for participant in manifests)

        async def one(participant: Participant) -> Installed:
            restore = Restore(
                **self.common,
                checkpoint_id=checkpoint_id,
                directory=directory,
                manifest_sha256=manifests[participant],
                scope=tuple(scope),
            )
            reply = await participant.post("restore", restore, Installed)
            self.check(participant, reply.boot, reply.phase, "restored")
            return reply

        replies = await each(manifests, one)
        environments = (reply for participant, reply in replies.items() if participant.kind == "environment")
        installed = {key for reply in environments for key in reply.installed}
        becoming = {EpisodeId(episode.rollout_id, episode.becomes).capture_key for episode in scope}
        if missing := sorted(becoming - installed):
            named = ", ".join(missing[:_NAMED]) + (" and others" if len(missing) > _NAMED else "")
            raise CheckpointError(f"no environment has installed {named}")
