"""Promises about restores: into a process that has served nothing, all or nothing, as the next attempt."""

from typing import Final

import anyio
from anyio.abc import TaskGroup

from triocollect.conformance.peer import Peer, UnderWay
from triocollect.errors import UntriedError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Committed, Installed, Resumed, Status
from triocollect.protocol.refusals import Code

NO_DIGEST: Final = "0" * 64
_BEGUN_S: Final = 0.1  # after which a /run has begun, and few are over


def restore_of(folder: str, sha256: str, *episodes: EpisodeId) -> dict[str, object]:
    """What a restore of a commit says beyond the common fields: each episode becomes its next attempt."""
    scope = [
        {"rollout_id": one.rollout_id, "attempt": one.attempt, "becomes": one.attempt + 1} for one in episodes
    ]
    return {"checkpoint_id": folder, "directory": folder, "manifest_sha256": sha256, "scope": scope}


async def saved(peer: Peer, *episodes: EpisodeId) -> dict[str, object]:
    """A restore of these episodes, which a checkpoint was just taken of."""
    answer = await peer.committed(*episodes)
    (await peer.call("resume")).done(Resumed)
    folder = peer.folders[-1]
    peer.operation += 1
    return restore_of(folder, answer.manifest.sha256, *episodes)


async def fresh_takes_up(peer: Peer) -> None:
    """Restored, with a lease; the same again; other arguments are a conflict; a resume opens."""
    fields = await saved(peer)
    reply = await peer.call("restore", **fields)
    first = reply.done(Installed)
    reply.must((first.phase, first.installed) == ("restored", ()), "phase restored, nothing installed")
    status = await peer.raw("GET", "status")
    told = status.done(Status)
    status.must(told.phase == "restored" and told.lease_expires, "phase restored, with a lease")
    again = await peer.call("restore", **fields)
    again.must(again.done(Installed) == first, f"the same answer again: {first}")
    other = await peer.call("restore", **{**fields, "manifest_sha256": NO_DIGEST})
    other.refused(Code.CHECKPOINT_CONFLICT)
    (await peer.call("resume")).done(Resumed)
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).phase == "open", "phase open")


async def damaged_is_not_installed(peer: Peer) -> None:
    """Records that are not those that were written."""
    fields = await saved(peer)
    reply = await peer.call("restore", **{**fields, "manifest_sha256": NO_DIGEST})
    reply.refused(Code.INVALID_STATE)
    status = await peer.raw("GET", "status")
    told = status.done(Status)
    status.must(
        (told.phase, told.restored_pending) == ("open", 0), "phase open, nothing pending: the restore failed"
    )
    peer.operation += 1
    await peer.prepared()


async def served_is_not_fresh(peer: Peer) -> None:
    """Work was admitted since its start."""
    fields = await saved(peer)
    await peer.served()
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).served, "served true: it has answered a data request with success")
    reply = await peer.call("restore", **fields)
    reply.refused(Code.NOT_FRESH)
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).phase == "open", "phase open")


async def another_process_goes_on(peer: Peer) -> None:
    """What was committed is installed as the next attempt, and those before it are over."""
    episode, after = await _continued(peer)
    (await peer.call("resume")).done(Resumed)
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).restored_pending == 1, f"restored_pending 1: nobody asked for {after}")
    late = await peer.worked(episode)
    late.refused(Code.STALE_ATTEMPT)
    reply = await peer.worked(EpisodeId(episode.rollout_id, 1))
    reply.must(reply.success, "success: it is the attempt that the restore installed")


async def unclaimed_is_dropped(peer: Peer) -> None:
    """Restored state that nobody asked for, and that the scope of the next commit leaves out."""
    episode, after = await _continued(peer)
    (await peer.call("resume")).done(Resumed)
    peer.operation += 1
    await peer.committed()
    status = await peer.raw("GET", "status")
    status.must(
        status.done(Status).restored_pending == 0,
        f"restored_pending 0: the commit's scope is without {after}",
    )
    (await peer.call("resume")).done(Resumed)
    reply = await peer.worked(EpisodeId(episode.rollout_id, 1))
    reply.must(reply.success, "success: what is dropped leaves no refusal behind")


async def run_goes_on(peer: Peer) -> None:
    """An episode that was under way is played to its end from its record, and no second time."""
    await peer.served()
    async with anyio.create_task_group() as tasks:
        await under_way(peer, tasks)
        episode = peer.episodes[-1]
        answer = await peer.committed(episode)
        tasks.cancel_scope.cancel()
    await _restored(peer, episode, answer)
    (await peer.call("resume")).done(Resumed)
    after = EpisodeId(episode.rollout_id, 1)
    reply = await peer.worked(after, continued=True)
    reply.must(reply.success, "success: its record was restored")
    again = await peer.worked(after, continued=True)
    again.refused(Code.NOT_RESTORED)


async def under_way(peer: Peer, tasks: TaskGroup) -> UnderWay:
    """A /run that has begun, of the latest episode."""
    episode = peer.episode()
    asking = UnderWay(tasks, lambda: peer.work(peer.works.of(episode, peer.sender)))
    if await asking.reply(_BEGUN_S) is not None:
        raise UntriedError("its /run was over at once: give a row that takes longer")
    return asking


async def _continued(peer: Peer) -> tuple[EpisodeId, str]:
    episode = await peer.served()
    answer = await peer.committed(episode)
    return episode, await _restored(peer, episode, answer)


async def _restored(peer: Peer, episode: EpisodeId, answer: Committed) -> str:
    """Restore what was just committed into another process; answers the key of the attempt to come."""
    if episode.capture_key not in answer.exported:
        raise UntriedError(f"it exported nothing of {episode.capture_key}, which it had served")
    (await peer.call("resume")).done(Resumed)
    folder = peer.folders[-1]
    assert peer.restart is not None
    await peer.restart()
    await peer.begin()
    after = EpisodeId(episode.rollout_id, episode.attempt + 1).capture_key
    reply = await peer.call("restore", **restore_of(folder, answer.manifest.sha256, episode))
    reply.must(reply.done(Installed).installed == (after,), f"installed: {after}")
    return after
