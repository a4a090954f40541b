"""Promises about the server's work: whose it is, when it waits, when it is over."""

import anyio
from msgspec import UNSET

from triocollect.conformance.peer import WAITING_S, Peer, UnderWay
from triocollect.conformance.reply import Reply
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Committed, Forgotten, Prepared, Resumed, Retired
from triocollect.protocol.refusals import Code


async def nobodys_is_refused(peer: Peer) -> None:
    """No checkpoint could know whose it is."""
    await peer.served()
    reply = await peer.work(peer.works.of_nobody())
    reply.refused(Code.ROLLOUT_ID_REQUIRED)


async def older_epochs_are_refused(peer: Peer) -> None:
    """Work for a collector that is gone."""
    await peer.served()
    reply = await peer.worked(peer.episode(), epoch=peer.epoch - 1)
    reply.refused(Code.STALE_EPOCH)


async def nothing_starts_while_closed(peer: Peer) -> None:
    """A /run is refused, everything else waits: from prepare to resume."""
    await peer.served()
    await peer.prepared()
    await _is_kept_out(peer, "prepared")
    (await peer.call("commit", **peer.cut())).done(Committed)
    await _is_kept_out(peer, "committed")


async def _is_kept_out(peer: Peer, phase: str) -> None:
    async with anyio.create_task_group() as tasks:
        reply = await _asked(peer, tasks).reply(peer.patience_s if _refuses(peer) else WAITING_S)
        tasks.cancel_scope.cancel()
    if reply is None:
        return
    if not _refuses(peer):
        raise reply.broken(f"no answer before the resume: it is {phase}")
    reply.refused(Code.CHECKPOINT_OPEN)


async def resume_lets_in(peer: Peer) -> None:
    """Whoever comes then, and whoever waits."""
    await peer.prepared()
    (await peer.call("resume")).done(Resumed)
    await peer.worked(peer.episode())  # any answer will do: it is let in
    await peer.served()
    peer.operation += 1
    await peer.prepared()
    async with anyio.create_task_group() as tasks:
        asking = _asked(peer, tasks)
        await asking.reply(WAITING_S)
        (await peer.call("resume")).done(Resumed)
        _went_on(peer, await asking.reply(peer.patience_s), "it waited for the resume, which was answered")
        tasks.cancel_scope.cancel()


async def lease_lets_in(peer: Peer) -> None:
    """Whoever waits when the collector dies, although nobody asks for the status."""
    await peer.served()
    times = {"budget_ms": 1_000, "lease_ms": 500}
    (await peer.call("prepare", **times)).done(Prepared)
    async with anyio.create_task_group() as tasks:
        asking = _asked(peer, tasks)
        reply = await asking.reply(1.5 + peer.patience_s)
        tasks.cancel_scope.cancel()
    _went_on(peer, reply, "it waited for the end of the lease, 1.5 s after the prepare")


def _refuses(peer: Peer) -> bool:
    """Only a /run is refused while closed."""
    return peer.works.kind == "environment"


def _asked(peer: Peer, tasks: anyio.abc.TaskGroup) -> UnderWay:
    work = peer.works.of(peer.episode(), peer.sender)
    return UnderWay(tasks, lambda: peer.work(work))


def _went_on(peer: Peer, reply: Reply | None, when: str) -> None:
    if reply is None:
        work = peer.works.of(peer.episodes[-1])
        reply = Reply(f"POST {work.path}: {when}", 0, b"nothing")
    if reply.code != Code.CHECKPOINT_OPEN or not _refuses(peer):
        reply.must(reply.success, f"success: {when}")


async def retired_is_over(peer: Peer) -> None:
    """Of this attempt nothing is taken, and the refusal says above which one the next has to be."""
    episode = await peer.served()
    (await peer.call("retire", episodes=[episode])).done(Retired)
    late = await peer.worked(episode)
    refusal = late.refused(Code.STALE_ATTEMPT)
    late.must(refusal.retired_through is not UNSET, "retired_through, the highest retired attempt")
    later = await peer.worked(EpisodeId(episode.rollout_id, 1))
    later.must(later.success, "success: attempt 0 is retired, attempt 1 is not")


async def forgotten_is_free(peer: Peer) -> None:
    """A finished rollout leaves no refusal behind."""
    episode = await peer.served()
    (await peer.call("retire", episodes=[episode])).done(Retired)
    (await peer.call("forget", rollout_ids=[episode.rollout_id])).done(Forgotten)
    reply = await peer.worked(episode)
    reply.must(reply.success, "success: its retired attempts were forgotten")


async def unrestored_is_not_continued(peer: Peer) -> None:
    """Never from its input what says that it goes on."""
    await peer.served()
    reply = await peer.worked(peer.episode(), continued=True)
    reply.refused(Code.NOT_RESTORED)


async def scope_is_exported(peer: Peer) -> None:
    """All that is held of the scope, and nothing else."""
    wanted, _ = await peer.served(), await peer.served()
    await peer.prepared()
    reply = await peer.call("commit", **peer.cut(wanted))
    exported = reply.done(Committed).exported
    reply.must(exported == (wanted.capture_key,), f"exported: {wanted.capture_key}, which it had served")


async def uncaptured_is_told(peer: Peer) -> None:
    """Who was served begins anew after a restart, and is no part of a checkpoint."""
    episode = await peer.served()
    reply = await peer.call("prepare")
    told = reply.done(Prepared).report.restarts
    reply.must(
        episode.capture_key in told, f"{episode.capture_key} among the report's restarts: it was served"
    )
    (await peer.call("commit", **peer.cut(episode))).refused(Code.RESTART_IN_SCOPE)
