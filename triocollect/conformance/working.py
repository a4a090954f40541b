"""Promises about the server's work: whose it is, when it waits, when it is over."""

import anyio
from msgspec import UNSET

from triocollect.conformance.cutting import SHORT_BUDGET_MS, SHORT_LEASE_MS
from triocollect.conformance.peer import PATIENCE_S, WAITING_S, Peer, UnderWay
from triocollect.conformance.reply import Reply
from triocollect.conformance.restoring import saved, under_way
from triocollect.errors import UntriedError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Committed, Forgotten, Installed, Prepared, Resumed, Retired
from triocollect.protocol.refusals import Code


async def nobodys_is_refused(peer: Peer) -> None:
    """No checkpoint could know whose it is."""
    await peer.served()
    reply = await peer.answered(peer.works.of_nobody())
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
        reply = await _asked(peer, tasks).reply(PATIENCE_S if _refuses(peer) else WAITING_S)
        tasks.cancel_scope.cancel()
    if _refuses(peer):
        (reply or _no_reply(peer, f"while {phase}")).refused(Code.CHECKPOINT_OPEN)
    elif reply is not None:
        raise reply.broken(f"no answer before the resume: it is {phase}")


async def resume_lets_in(peer: Peer) -> None:
    """Whoever comes then, and whoever waits."""
    await peer.prepared()
    (await peer.call("resume")).done(Resumed)
    reply = await peer.worked(peer.episode())
    reply.must(reply.code != Code.CHECKPOINT_OPEN, "any other answer: the resume was answered")
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
    times = {"budget_ms": SHORT_BUDGET_MS, "lease_ms": SHORT_LEASE_MS}
    (await peer.call("prepare", **times)).done(Prepared)
    async with anyio.create_task_group() as tasks:
        asking = _asked(peer, tasks)
        reply = await asking.reply((SHORT_BUDGET_MS + SHORT_LEASE_MS) / 1000 + peer.patience_s)
        tasks.cancel_scope.cancel()
    _went_on(peer, reply, "it waited for the end of the lease, which the prepare gave")


def _refuses(peer: Peer) -> bool:
    """Only a /run is refused while closed."""
    return peer.works.kind == "environment"


def _asked(peer: Peer, tasks: anyio.abc.TaskGroup) -> UnderWay:
    work = peer.works.of(peer.episode(), peer.sender)
    return UnderWay(tasks, lambda: peer.work(work))


def _went_on(peer: Peer, reply: Reply | None, when: str) -> None:
    given = reply or _no_reply(peer, when)
    if given.code != Code.CHECKPOINT_OPEN or not _refuses(peer):
        given.must(given.success, f"success: {when}")


def _no_reply(peer: Peer, when: str) -> Reply:
    """In place of the answer to the last request, which did not come."""
    return Reply(f"POST {peer.works.of(peer.episodes[-1]).path}, {when}", 0, b"nothing")


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
    if not exported and peer.works.path is not None:
        raise UntriedError(
            f"it exported nothing of {wanted.capture_key}, which may be right where {peer.works.path} leaves "
            "nothing behind: give the route that begins a session (--work)"
        )
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


async def waiting_is_asked_again(peer: Peer) -> None:
    """A retire between the wait and the opening, which a restore leaves room for."""
    fields = await saved(peer)
    (await peer.call("restore", **fields)).done(Installed)
    async with anyio.create_task_group() as tasks:
        asking = _asked(peer, tasks)
        if await asking.reply(WAITING_S) is not None:
            raise UntriedError("it did not wait while a restore was open")
        (await peer.call("retire", episodes=[peer.episodes[-1]])).done(Retired)
        (await peer.call("resume")).done(Resumed)
        reply = await asking.reply(peer.patience_s)
        tasks.cancel_scope.cancel()
    if reply is None:
        raise UntriedError("what waited brought no answer after the resume")
    if reply.code != Code.STALE_ATTEMPT and not reply.success:
        raise UntriedError(f"what waited was answered {reply.answered}")
    reply.refused(Code.STALE_ATTEMPT)


async def goodbye_is_the_end(peer: Peer) -> None:
    """What still arrives in its name was under way too long: nobody would ever end it."""
    await peer.served()
    (await peer.call("forget", rollout_ids=["none"], goodbye=True)).done(Forgotten)
    reply = await peer.worked(peer.episode(), epoch=peer.epoch)
    reply.refused(Code.STALE_EPOCH)


async def flight_is_exported(peer: Peer) -> None:
    """The episode is in the middle of something when the checkpoint comes."""
    await peer.served()
    async with anyio.create_task_group() as tasks:
        asking = await under_way(peer, tasks)
        episode = peer.episodes[-1]
        await peer.prepared()
        reply = await peer.call("commit", **peer.cut(episode))
        exported = reply.done(Committed).exported
        if await asking.reply(0) is not None:
            raise UntriedError("its /run was over before the checkpoint: give a row that takes longer")
        reply.must(exported == (episode.capture_key,), f"exported: {episode.capture_key}, which is under way")
        (await peer.call("resume")).done(Resumed)
        _went_on(peer, await asking.reply(peer.patience_s), "it was under way at the checkpoint")
        tasks.cancel_scope.cancel()


async def twice_at_once_is_refused(peer: Peer) -> None:
    """One of the two is played, whichever came first; the other one is no part of it."""
    await peer.served()
    begun = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        first = await under_way(peer, tasks)
        work = peer.works.of(peer.episodes[-1], peer.sender)
        second = UnderWay(tasks, lambda: peer.work(work))
        one = await first.reply(peer.patience_s)
        ended = anyio.current_time()
        other = await second.reply(peer.patience_s)
        late_s = anyio.current_time() - ended
        tasks.cancel_scope.cancel()
    if one is None or other is None:
        raise UntriedError("its /run needs longer than --patience: give a shorter row")
    played, refused = (other, one) if one.code == Code.DUPLICATE_ATTEMPT else (one, other)
    if refused.code != Code.DUPLICATE_ATTEMPT and late_s > (ended - begun) / 2:
        raise UntriedError(
            "its /run may have been over when it was asked again: give a row that takes longer"
        )
    refused.refused(Code.DUPLICATE_ATTEMPT)
    played.must(played.success, "success: the refusal was of the other /run of this attempt")


async def answers_are_delivered_once(peer: Peer) -> None:
    """Two calls of one episode that come while it is closed, and one that comes later."""
    episode = await peer.served()
    work = peer.works.of(episode, peer.sender)
    await peer.prepared()
    async with anyio.create_task_group() as tasks:
        held = [UnderWay(tasks, lambda: peer.work(work)) for _ in range(2)]
        await held[-1].reply(WAITING_S)
        (await peer.call("resume")).done(Resumed)
        replies = [await one.reply(peer.patience_s) for one in held]
        replies.append(await peer.worked(episode))
        tasks.cancel_scope.cancel()
    answered = [reply for reply in replies if reply is not None]
    names = [reply.call_id for reply in answered]
    if None in names:
        raise UntriedError("its answers carry no x-call-id")
    answered[-1].must(
        len(set(names)) == len(names) == len(replies), f"three names in three answers, not {names}"
    )
