"""Promises about one checkpoint after another: prepare, commit, resume, and the lease."""

from typing import Final

import anyio

from triocollect.conformance.peer import Peer
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Committed, Forgotten, Prepared, Resumed, Retired, Status
from triocollect.protocol.refusals import Code

SHORT_BUDGET_MS: Final = 2_000  # a busy machine must not use it up
SHORT_LEASE_MS: Final = 500
SLACK_S: Final = 0.5
MOST_RETIRED: Final = 1024


async def prepare_closes(peer: Peer) -> None:
    """Prepared, with a lease; asked again it says the same."""
    first = await peer.prepared()
    reply = await peer.raw("GET", "status")
    status = reply.done(Status)
    reply.must(
        (status.phase, status.operation) == ("prepared", peer.operation),
        f"phase prepared by operation {peer.operation}",
    )
    reply.must(status.lease_expires, "lease_expires above 0")
    again = await peer.call("prepare")
    again.must(again.done(Prepared) == first, f"the same answer again: {first}")


async def commit_needs_prepare(peer: Peer) -> None:
    """Nothing is exported that was not brought to rest."""
    (await peer.call("commit", **peer.cut())).refused(Code.INVALID_PHASE)
    reply = await peer.raw("GET", "status")
    reply.must(reply.done(Status).phase == "open", "phase open")


async def commits_are_one(peer: Peer) -> None:
    """The same manifest again; other arguments are a conflict."""
    first = await peer.committed()
    again = await peer.call("commit", **peer.cut())
    again.must(again.done(Committed) == first, f"the same answer again: {first}")
    other = await peer.call("commit", **peer.cut(EpisodeId("none")))
    other.refused(Code.CHECKPOINT_CONFLICT)


async def resume_opens(peer: Peer) -> None:
    """From prepared, which is the abort, and from committed; as often as it is asked."""
    await peer.prepared()
    await _opened(peer)
    peer.operation += 1
    await peer.committed()
    await _opened(peer)
    await _opened(peer)


async def _opened(peer: Peer) -> None:
    reply = await peer.call("resume")
    reply.must(reply.done(Resumed).phase == "open", "phase open")
    reply = await peer.raw("GET", "status")
    status = reply.done(Status)
    reply.must((status.phase, status.lease_expires) == ("open", None), "phase open, no lease: it was resumed")


async def finished_is_finished(peer: Peer) -> None:
    """An operation that was resumed can never act again."""
    await peer.committed()
    (await peer.call("resume")).done(Resumed)
    (await peer.call("prepare")).refused(Code.STALE_CHECKPOINT)
    (await peer.call("commit", **peer.cut())).refused(Code.STALE_CHECKPOINT)


async def unseen_is_fenced(peer: Peer) -> None:
    """A resume that overtakes its own prepare."""
    (await peer.call("resume", 5)).done(Resumed)
    (await peer.call("prepare", 5)).refused(Code.STALE_CHECKPOINT)
    (await peer.call("prepare", 4)).refused(Code.STALE_CHECKPOINT)
    await peer.prepared(6)


async def newer_ends_older(peer: Peer) -> None:
    """The older one's resume was lost."""
    await peer.committed()
    await peer.prepared(2)
    reply = await peer.raw("GET", "status")
    status = reply.done(Status)
    reply.must((status.phase, status.operation) == ("prepared", 2), "phase prepared by operation 2")
    (await peer.call("commit", 1, **peer.cut(operation=1))).refused(Code.STALE_CHECKPOINT)


async def budget_ends_the_call_alone(peer: Peer) -> None:
    """A commit without time fails, and what it began is what the next one answers."""
    await peer.prepared()
    hurried = await peer.call("commit", **peer.cut(), budget_ms=0)
    if hurried.status != 200:  # noqa: PLR2004  # whoever is quick enough has done it
        hurried.refused(Code.DEADLINE_EXCEEDED)
    first = (await peer.call("commit", **peer.cut())).done(Committed)
    again = await peer.call("commit", **peer.cut())
    again.must(again.done(Committed) == first, f"the same answer again: {first}")


async def lease_opens(peer: Peer) -> None:
    """The collector has died."""
    times = {"budget_ms": SHORT_BUDGET_MS, "lease_ms": SHORT_LEASE_MS}
    (await peer.call("prepare", **times)).done(Prepared)
    await anyio.sleep((SHORT_BUDGET_MS + SHORT_LEASE_MS) / 1000 + SLACK_S)
    reply = await peer.raw("GET", "status")
    status = reply.done(Status)
    waited = f"{SHORT_BUDGET_MS} ms of budget and {SHORT_LEASE_MS} ms of lease ago"
    reply.must(
        (status.phase, status.lease_expires) == ("open", None),
        f"phase open: the last control call came {waited}",
    )
    (await peer.call("commit", **peer.cut())).refused(Code.STALE_CHECKPOINT)


async def nothing_is_retired_inside(peer: Peer) -> None:
    """What a cut may contain stays as it is until the resume."""
    await peer.prepared()
    await _out_of_turn(peer)
    (await peer.call("commit", **peer.cut())).done(Committed)
    await _out_of_turn(peer)


async def _out_of_turn(peer: Peer) -> None:
    (await peer.call("retire", episodes=[EpisodeId("none")])).refused(Code.INVALID_PHASE)
    (await peer.call("forget", rollout_ids=["none"])).refused(Code.INVALID_PHASE)


async def retires_come_in_batches(peer: Peer) -> None:
    """1 to 1,024 episodes, each answered, and again if it is asked again."""
    (await peer.call("retire", episodes=[])).refused(Code.BAD_REQUEST)
    many = [EpisodeId(f"{peer.name}-r{number}") for number in range(MOST_RETIRED + 1)]
    (await peer.call("retire", episodes=many)).refused(Code.BAD_REQUEST)
    for _ in range(2):
        reply = await peer.call("retire", episodes=many[:2])
        keys = tuple(one.capture_key for one in many[:2])
        reply.must(reply.done(Retired).retired == keys, f"retired: {', '.join(keys)}")
    (await peer.call("forget", rollout_ids=[one.rollout_id for one in many])).done(Forgotten)
