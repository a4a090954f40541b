"""Checkpoints as participants and collectors write them."""

import hashlib

import msgspec

from triocollect import durable
from triocollect.checkpoint.names import new_checkpoint_id
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Manifest, ParticipantRef, Record, RecordsRef

SOME = (EpisodeId("5-0"), EpisodeId("6-1", 2))


def commit(folder, checkpoint_id, kind="environment", instance="env", episodes=SOME) -> ParticipantRef:
    """What one participant does at a commit: records, then its manifest, all durable."""
    lines = b"".join(
        msgspec.json.encode(
            Record(
                rollout_id=one.rollout_id, attempt=one.attempt, kind=kind, state=msgspec.Raw(b'{"step":3}')
            )
        )
        + b"\n"
        for one in episodes
    )
    place = folder
    for part in ("participants", kind, instance):
        place /= part
        place.mkdir(exist_ok=True)
    digest = hashlib.sha256(lines).hexdigest()
    durable.replace(place / f"records-{digest}.jsonl", lines)
    records = RecordsRef(f"records-{digest}.jsonl", digest, len(episodes))
    manifest = msgspec.json.encode(
        Manifest(kind=kind, instance=instance, boot="b1", checkpoint_id=checkpoint_id, records=records)
    )
    durable.replace(place / "manifest.json", manifest)
    return ParticipantRef(
        kind=kind,
        instance=instance,
        manifest=f"participants/{kind}/{instance}/manifest.json",
        sha256=hashlib.sha256(manifest).hexdigest(),
        record_count=len(episodes),
    )


def a_collection(sequence, participants, checkpoint_id, episodes=SOME) -> Collection:
    return Collection(
        checkpoint_id=checkpoint_id,
        sequence=sequence,
        epoch=1,
        run="4f2c",
        created="2026-01-02T03:04:05+00:00",
        input_sha256="01" * 32,
        continued=tuple(episodes),
        restarted=(),
        participants=tuple(participants),
    )


CREW = (("environment", "env"), ("agent", "agent"))


def draft(store, episodes=SOME, crew=CREW) -> Collection:
    """Everything before the publish."""
    sequence = store.next_sequence()
    folder, checkpoint_id = store.begin(sequence), new_checkpoint_id(sequence)
    parts = [commit(folder, checkpoint_id, kind, instance, episodes) for kind, instance in crew]
    return a_collection(sequence, parts, checkpoint_id, episodes)


def take(store, episodes=SOME) -> int:
    """A checkpoint from its beginning to its prune; its number."""
    collection = draft(store, episodes)
    assert store.publish(collection).unsynced is None
    assert store.prune() == ()
    return collection.sequence
