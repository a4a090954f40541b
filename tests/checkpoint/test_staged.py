"""Staged cuts in a checkpoint directory stay as long as a checkpoint names them, and go with the last."""

import msgspec
import pytest

from tests.checkpoint.checkpoints import draft
from triocollect.capture.retention import staged_packs
from triocollect.capture.staging import STAGING, Staging, packs_of
from triocollect.checkpoint.names import COLLECTION
from triocollect.checkpoint.rubbish import rubbish_in
from triocollect.checkpoint.store import Store
from triocollect.protocol.inference import StagedCut


def stage(root, name):
    """A pack with one cut."""
    cut = StagedCut(call_id=name, request="ab", policy="p", tokens=1, text="a")
    (pack,) = packs_of(Staging(root / STAGING).stage([cut]))
    return pack


def take(store, *packs):
    """A checkpoint that names these."""
    collection = draft(store)
    first, *others = collection.participants
    first = msgspec.structs.replace(first, kept=packs)
    store.publish(msgspec.structs.replace(collection, participants=(first, *others)))
    assert store.prune() == ()
    return store.root / f"ckpt-{collection.sequence:06}"


def test_a_pack_goes_with_the_last_checkpoint_that_names_it(tmp_path):
    store = Store(tmp_path)
    both, one, nobodys = (stage(tmp_path, name) for name in ("both", "one", "nobody's"))
    take(store, both, one)
    assert set(staged_packs(tmp_path / STAGING)) == {both, one}, nobodys
    take(store, both)
    assert set(staged_packs(tmp_path / STAGING)) == {both, one}, "the one before is kept"
    take(store, both)
    assert set(staged_packs(tmp_path / STAGING)) == {both}
    assert store.forget() == ()
    assert staged_packs(tmp_path / STAGING) == ()


def test_a_try_that_failed_leaves_nothing_staged(tmp_path):
    store = Store(tmp_path)
    kept = stage(tmp_path, "kept")
    take(store, kept)
    failed = draft(store)
    stage(tmp_path, "of the failed one")
    assert store.discard(failed.sequence) == ()
    assert staged_packs(tmp_path / STAGING) == (kept,)


@pytest.mark.parametrize("harm", [b"", b"{", b"\xff"])
def test_where_a_kept_checkpoint_cannot_be_read_every_pack_stays(tmp_path, harm):
    store = Store(tmp_path)
    named, unnamed = stage(tmp_path, "named"), stage(tmp_path, "unnamed")
    folder = tmp_path / "ckpt-000001"
    first = draft(store)
    store.publish(first)
    (folder / COLLECTION).write_bytes(harm)
    assert store.prune() == ()
    assert set(staged_packs(tmp_path / STAGING)) == {named, unnamed}


def test_gc_finds_what_deaths_left_staged_and_leaves_what_is_named(tmp_path):
    store = Store(tmp_path)
    kept = stage(tmp_path, "kept")
    take(store, kept)
    left = stage(tmp_path, "left by a death")
    (tmp_path / STAGING / f".{'0a' * 8}.tmp").write_bytes(b"half")
    (tmp_path / STAGING / "notes").write_bytes(b"mine")
    found = rubbish_in(tmp_path)
    assert {path.name for path in found.packs} == {f"{left}.jsonl", f".{'0a' * 8}.tmp"}
    assert store.sweep(found) == ()
    assert {path.name for path in (tmp_path / STAGING).iterdir()} == {f"{kept}.jsonl", "notes"}
    assert rubbish_in(tmp_path).packs == ()
