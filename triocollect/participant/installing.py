"""Restore: the records of a checkpoint, checked before anything is touched, installed all or not at all."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from triocollect.participant.errands import refuse
from triocollect.participant.hooks import R, episode_of
from triocollect.participant.operations import Refuse
from triocollect.participant.standing import Standing, over
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Installed, Restore
from triocollect.protocol.phases import Event, Phase
from triocollect.protocol.refusals import Code

_log: Final = logging.getLogger("triocollect.participant")

NOT_FRESH: Final = Refuse(
    Code.NOT_FRESH, "work was admitted since the start: only a fresh process can be restored into"
)


async def restore(standing: Standing[R], call: Restore, arrival: float) -> Installed | Refuse:
    """Install, or wait for the install that an earlier call began."""
    if standing.phase is Phase.OPEN:
        if standing.hooks.served():
            return NOT_FRESH
        try:
            standing.close(call, Event.RESTORE, arrival)
        except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
            standing.back(Event.RESTORE_FAILED)
            return refuse(error)
        standing.install = standing.errand(partial(_install, standing, call))
    assert standing.install is not None
    return await standing.install.result()


async def _install(standing: Standing[R], call: Restore) -> Installed | Refuse:
    becomes = {
        EpisodeId(one.rollout_id, one.attempt): EpisodeId(one.rollout_id, one.becomes) for one in call.scope
    }
    refused: Refuse | None = None
    installed: tuple[EpisodeId, ...] = ()
    try:
        installed = await _installed(standing, call, becomes)
    except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
        refused = refuse(error)
    standing.expire()
    if standing.unwanted:
        refused = over(call)
    if refused is not None:
        await _drop(standing)
        standing.back(Event.RESTORE_FAILED)
        return refused
    standing.admission.marks.install(becomes.values())
    standing.move(Event.INSTALLED)
    answer = Installed(
        boot=standing.boot, phase="restored", installed=tuple(one.capture_key for one in installed)
    )
    standing.operations.answered(call, answer)
    return answer


async def _installed(
    standing: Standing[R], call: Restore, becomes: Mapping[EpisodeId, EpisodeId]
) -> tuple[EpisodeId, ...]:
    record_type = standing.hooks.record_type
    records = await standing.in_thread(
        lambda: standing.shelf.read(call.checkpoint_id, call.directory, call.manifest_sha256, record_type)
    )
    wanted = [one for one in records if episode_of(one) in becomes]
    standing.expire()
    return () if standing.unwanted else tuple(await standing.hooks.install(wanted, becomes))


async def _drop(standing: Standing[R]) -> None:
    try:
        await standing.hooks.discard(None)
    except Exception:  # noqa: BLE001  # the hooks are somebody else's code
        _log.exception("what a failed restore left in %s stays", standing.hooks.instance)
