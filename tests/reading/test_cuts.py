"""What `inspect` and `verify` say of calls that a checkpoint cut: how far they are kept, and what is lost."""

import msgspec
import pytest
from msgspec import UNSET, Raw

from tests.checkpoint.checkpoints import a_collection
from triocollect.capture.staging import STAGING, Staging, packs_of
from triocollect.protocol.inference import StagedCut
from triocollect.protocol.manifests import ParticipantRef, Record
from triocollect.reading.cuts import cuts_of
from triocollect.servers.states import keep


class Kept(msgspec.Struct, omit_defaults=True):
    rows: tuple[Raw, ...] = ()
    cut: dict[str, str | int] | None = None


@pytest.fixture
def kept(tmp_path):
    """A checkpoint of three episodes, two of which had calls under way, with seven tokens and with two."""
    staged = [StagedCut(call_id=f"c{n}", request="ab", policy="p", tokens=n, text="a") for n in (7, 2)]
    keys = Staging(tmp_path / STAGING).stage(staged)
    states = [Kept(cut={"key": key, "tokens": cut.tokens}) for key, cut in zip(keys, staged, strict=True)]
    place = tmp_path / "ckpt-000001" / "participants" / "model" / "m"
    place.mkdir(parents=True)
    lines = [
        msgspec.json.encode(Record(rollout_id=f"{n}-0", attempt=0, kind="model", state=keep(state)))
        for n, state in enumerate([*states, Kept(rows=(Raw(b'{"$odd":1}'),))])
    ]
    (place / "records-1.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    ref = ParticipantRef(
        kind="model",
        instance="m",
        manifest="participants/model/m/manifest.json",
        sha256="ab",
        record_count=3,
        kept=packs_of(keys),
    )
    return tmp_path / "ckpt-000001", a_collection(1, [ref], "c-1")


def test_calls_that_were_cut_are_counted_with_their_tokens(kept):
    assert cuts_of(*kept).words() == "2 calls under way kept with 9 tokens"


def test_cuts_whose_pack_is_gone_are_generated_again_and_damage_nothing(kept):
    folder, _ = kept
    for pack in (folder.parent / STAGING).iterdir():
        pack.unlink()
    assert cuts_of(*kept).words() == "0 calls under way kept with 0 tokens; 2 cuts lost: generated again"


def test_a_checkpoint_that_cut_nothing_says_nothing_of_it(kept):
    folder, collection = kept
    (ref,) = collection.participants
    bare = msgspec.structs.replace(ref, kept=UNSET)
    assert cuts_of(folder, msgspec.structs.replace(collection, participants=(bare,))) is UNSET
