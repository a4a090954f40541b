"""Promises about who is obeyed: the collector of the highest epoch, and nobody else."""

from triocollect.conformance.door import VERBS, nothing_of
from triocollect.conformance.peer import Peer
from triocollect.protocol.messages import Greeted, Status
from triocollect.protocol.refusals import Code


async def higher_is_obeyed(peer: Peer) -> None:
    """The greeting of a higher epoch is taken, and told by the status."""
    reply = await peer.begin()
    reply.must(reply.done(Greeted).phase == "open", "phase open")
    status = await peer.raw("GET", "status")
    status.must(status.done(Status).epoch == peer.epoch, f"epoch {peer.epoch}")


async def lower_is_refused(peer: Peer) -> None:
    """Whatever a collector of a lower epoch asks."""
    for verb in VERBS:
        reply = await peer.call(verb, 9, **nothing_of(peer, verb), epoch=peer.epoch - 1)
        reply.refused(Code.STALE_EPOCH)


async def others_are_refused(peer: Peer) -> None:
    """Another run that claims the same epoch."""
    for verb in VERBS:
        reply = await peer.call(verb, 9, **nothing_of(peer, verb), run=f"{peer.name}-other")
        reply.refused(Code.OTHER_RUN)


async def higher_ends_what_is_open(peer: Peer) -> None:
    """What a collector left open that is gone."""
    await peer.committed()
    (await peer.begin()).done(Greeted)
    reply = await peer.raw("GET", "status")
    status = reply.done(Status)
    reply.must(
        (status.phase, status.lease_expires) == ("open", None),
        f"phase open without a lease: epoch {peer.epoch - 1} had prepared and committed, "
        f"and epoch {peer.epoch} has begun",
    )
