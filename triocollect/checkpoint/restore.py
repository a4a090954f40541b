"""Install a checkpoint on fresh servers before anything is sent, or say why it cannot be.

What cannot be restored starts from its input, at an attempt above every one that was used: nothing here fails
a start.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio

from triocollect.checkpoint.crew import Crew
from triocollect.checkpoint.installing import Installing
from triocollect.checkpoint.participants import Participant
from triocollect.checkpoint.plan import Plan
from triocollect.checkpoint.whole import Whole
from triocollect.errors import CheckpointError, StorageError
from triocollect.events import Note
from triocollect.protocol.ids import EpisodeId

LAST_WORDS_S: Final = 2.0  # to let participants go when the run is cancelled in the middle
_NAMED: Final = 10
_DRIVING: Final = frozenset({"environment", "agent"})  # no episode goes on without a part in these

LogInstalls = Callable[[Sequence[EpisodeId]], None]  # writes and syncs; may block


class Restoration(msgspec.Struct, frozen=True):
    """So many rows go on from their boundaries. `fault`: why none does although some were to; `restarted`.

    `operation`: of the epoch; None where nothing was asked of anybody.
    """

    restored: int
    fault: str | None = None
    restarted: tuple[EpisodeId, ...] = ()
    operation: int | None = None


async def restore(crew: Crew, whole: Whole, plan: Plan, log_installs: LogInstalls) -> Restoration:
    """Restore what the plan continues, all of it or nothing, and tell the ledger what came of it.

    Participants have been greeted; nothing was sent. Afterwards rows wait, by `ledger.lost`, until what they
    tried before is retired.
    """
    ledger = crew.air.ledger
    for key, episode in plan.to_retire.items():
        if key not in plan.continued:
            ledger.lose(key, episode)
    if not plan.continued:
        return Restoration(0)
    try:
        manifests = await _manifests(crew, whole)
    except CheckpointError as error:
        return _from_input(crew, plan, error, installed=False)
    installing = crew.coordination.installing()
    try:
        await crew.blocking(lambda: log_installs(tuple(plan.becoming.values())))
        await _install(crew, installing, whole, plan, manifests)
    except (CheckpointError, StorageError) as error:
        given_up = _from_input(crew, plan, error, installed=True)
        return msgspec.structs.replace(given_up, operation=installing.number)
    ledger.restore(plan.becoming.items())
    return Restoration(len(plan.continued), operation=installing.number)


async def _manifests(crew: Crew, whole: Whole) -> dict[Participant, str]:
    """The digest of each participant's manifest. Raises CheckpointError where a restore cannot work."""
    served = [str(one) for one, status in (await crew.coordination.statuses()).items() if status.served]
    if served:
        raise CheckpointError(
            f"{', '.join(served)}: has served already and cannot be restored into; "
            "to continue rows, start the servers anew, too, before the collector"
        )
    present = {(one.kind, one.instance): one for one in crew.coordination.participants}
    refs = {(ref.kind, ref.instance): ref for ref in whole.collection.participants}
    kinds = {kind for kind, _ in refs}
    without = [str(one) for one in present.values() if one.kind in _DRIVING and one.kind not in kinds]
    if without:
        raise CheckpointError(f"{', '.join(without)}: the checkpoint has no part of its kind")
    missing = [" ".join(name) for name, ref in refs.items() if ref.record_count and name not in present]
    if missing:
        raise CheckpointError(f"{', '.join(missing)}: has a part in the checkpoint and is not there")
    return {present[name]: ref.sha256 for name, ref in refs.items() if name in present}


async def _install(
    crew: Crew, installing: Installing, whole: Whole, plan: Plan, manifests: dict[Participant, str]
) -> None:
    deadline = trio.current_time() + crew.timeout_s
    fault: str | None = f"the participants had not installed everything within {crew.timeout_s:g} s"
    try:
        with trio.move_on_at(deadline):
            fault = await _fault_of(installing, whole, plan, manifests)
        await crew.coordination.end(installing, deadline)
    except BaseException:  # also one that comes while they are opened
        await _let_go(crew, installing)
        raise
    if fault is not None:
        raise CheckpointError(fault)
    restarted = [str(one) for one, boot in installing.boots.items() if one.boot != boot]
    if restarted:  # it says so in the answer to its resume, and what it had installed is gone
        raise CheckpointError(f"{', '.join(restarted)}: restarted after it had installed its part")


async def _fault_of(
    installing: Installing, whole: Whole, plan: Plan, manifests: dict[Participant, str]
) -> str | None:
    try:
        await installing.install(
            checkpoint_id=whole.collection.checkpoint_id,
            directory=whole.folder.name,
            manifests=manifests,
            scope=tuple(plan.continued.values()),
        )
    except CheckpointError as error:
        return str(error)
    return None


async def _let_go(crew: Crew, installing: Installing) -> None:
    with trio.move_on_after(LAST_WORDS_S, shield=True):
        await crew.coordination.end(installing, trio.current_time())


def _from_input(crew: Crew, plan: Plan, error: Exception, *, installed: bool) -> Restoration:
    """What may have been installed, or may run still, is retired everywhere before its row is sent again."""
    used = {**plan.to_retire, **plan.becoming} if installed else plan.to_retire
    for key in plan.continued:
        if key in used:
            crew.air.ledger.lose(key, used[key])
    rows = tuple(plan.becoming.values())
    named = ", ".join(one.rollout_id for one in rows[:_NAMED]) + (" and others" if len(rows) > _NAMED else "")
    crew.listener(
        Note(f"{len(rows)} rows are not continued, they start from their input ({named}): {error}", "warning")
    )
    return Restoration(0, str(error), rows)
