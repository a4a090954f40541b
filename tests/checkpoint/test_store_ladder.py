"""Which checkpoint a restart continues from when something in the directory is damaged."""

import hashlib
import os
import shutil

import msgspec
import pytest

from tests.checkpoint.checkpoints import draft, take
from triocollect.checkpoint.ladder import episodes_named, find_checkpoint
from triocollect.checkpoint.store import Store
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Collection, Latest, Manifest, Restarted

FIRST, SECOND = (EpisodeId("0-0"),), (EpisodeId("0-0", 1), EpisodeId("1-0"))


@pytest.fixture
def root(tmp_path):
    store = Store(tmp_path)
    take(store, FIRST)
    take(store, SECOND)
    return tmp_path


def one(root, pattern):
    return next((root / "ckpt-000002").rglob(pattern))


def chop(path):
    path.write_bytes(path.read_bytes()[:-4])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def zero(path):
    path.write_bytes(b"\0" * path.stat().st_size)


def empty(path):
    path.write_bytes(b"")


def folder_instead(path):
    path.unlink()
    path.mkdir()


def link_instead(path):
    aside = path.parent / "aside"
    path.rename(aside)  # the same bytes are there, by another way
    path.symlink_to(aside)


def unlink(path):
    path.unlink()


HARM = [chop, flip, zero, empty, folder_instead, unlink]


@pytest.mark.parametrize("pattern", ["collection.json", "manifest.json", "records-*.jsonl"])
@pytest.mark.parametrize("harm", [*HARM, link_instead])
def test_a_checkpoint_with_one_damaged_file_is_passed_over_by_name(root, pattern, harm):
    harm(one(root, pattern))
    rung = find_checkpoint(root)
    assert rung.checkpoint.collection.continued == FIRST
    assert [skipped.name for skipped in rung.skipped] == ["ckpt-000002"]
    assert "ckpt-000002 was passed over: " in str(rung.skipped[0])
    assert find_checkpoint(root) == rung, "every later start does the same"


@pytest.mark.parametrize("harm", HARM[:-1])
def test_with_a_damaged_pointer_the_newest_whole_folder_is_used(root, harm):
    harm(root / "LATEST")
    rung = find_checkpoint(root)
    assert [skipped.name for skipped in rung.skipped] == ["LATEST"]
    assert rung.checkpoint.collection.continued == SECOND


def test_digits_of_a_digest_that_are_damaged_throw_no_checkpoint_away_and_another_digest_does(root):
    latest = msgspec.json.decode((root / "LATEST").read_bytes(), type=Latest)
    for wrong, continued in ((1, SECOND), (4, SECOND), (5, FIRST), (64, FIRST)):
        digits = "".join("0" if digit != "0" else "1" for digit in latest.sha256[:wrong])
        damaged = msgspec.structs.replace(latest, sha256=digits + latest.sha256[wrong:])
        (root / "LATEST").write_bytes(msgspec.json.encode(damaged))
        rung = find_checkpoint(root)
        assert rung.checkpoint.collection.continued == continued
    assert "collection.json is not the one that LATEST names" in rung.skipped[0].why


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\0" * 80, "it is empty"),
        (b"ckpt-000002\n", "it is damaged"),
        (b"\xff\xfe", "it is damaged"),
        (b"[" * 70_000, "it is damaged"),
        (b'{"checkpoint_id":"x","sequence":-1,"sha256":""}', "it names number -1"),
        (b'{"checkpoint_id":"x","sequence":1' + b"0" * 30 + b',"sha256":""}', "it is damaged"),
    ],
)
def test_what_is_wrong_with_the_pointer_is_said(root, content, why):
    (root / "LATEST").write_bytes(content)
    rung = find_checkpoint(root)
    assert rung.skipped[0].name == "LATEST"
    assert why in rung.skipped[0].why
    assert rung.checkpoint.collection.continued == SECOND
    assert take(Store(root)) == 3, "a damaged pointer does not keep the next from being published"
    assert find_checkpoint(root).skipped == ()


def test_without_a_pointer_there_is_no_checkpoint_whatever_lies_about(root):
    (root / "LATEST").unlink()
    rung = find_checkpoint(root)
    assert (rung.checkpoint, rung.skipped) == (None, ())


def test_a_pointer_to_a_folder_that_is_gone_falls_back_and_its_number_is_not_used_again(root):
    shutil.rmtree(root / "ckpt-000002")
    rung = find_checkpoint(root)
    assert rung.checkpoint.collection.continued == FIRST
    assert "ckpt-000002 is not there" in rung.skipped[0].why
    assert Store(root).next_sequence() == 3


def test_nothing_whole_at_all_is_no_checkpoint_with_every_reason(root):
    for collection in root.rglob("collection.json"):
        zero(collection)
    rung = find_checkpoint(root)
    assert rung.checkpoint is None
    assert [skipped.name for skipped in rung.skipped] == ["ckpt-000002", "ckpt-000001"]
    assert take(Store(root)) == 3


def test_the_walk_back_names_each_one_it_passes(root):
    take(Store(root))
    (root / "ckpt-000001").mkdir(exist_ok=True)
    for number in (2, 3):
        empty(root / f"ckpt-00000{number}" / "collection.json")
    (root / "LATEST").write_bytes(b"")
    assert [skipped.name for skipped in find_checkpoint(root).skipped] == [
        "LATEST", "ckpt-000003", "ckpt-000002", "ckpt-000001",
    ]  # fmt: skip


def test_a_folder_above_the_pointer_is_not_climbed_up_to(root):
    draft_of_later = draft(Store(root))
    assert draft_of_later.sequence == 3
    (root / "ckpt-000003/collection.json").write_bytes(msgspec.json.encode(draft_of_later))
    empty(one(root, "collection.json"))
    assert find_checkpoint(root).checkpoint.collection.continued == FIRST


def test_a_checkpoint_of_another_input_is_passed_over(root):
    same, other = "01" * 32, "02" * 32
    assert find_checkpoint(root, input_sha256=same).checkpoint.collection.continued == SECOND
    rewrite(root, input_sha256=other)
    rung = Store(root).find(input_sha256=same)
    assert rung.checkpoint.collection.continued == FIRST
    assert "ckpt-000002 was passed over: it was taken of another input" in str(rung.skipped[0])
    assert find_checkpoint(root).checkpoint.collection.continued == SECOND
    assert find_checkpoint(root, input_sha256="03" * 32).checkpoint is None


def test_a_checkpoint_of_another_output_is_not_continued(root):
    assert find_checkpoint(root, output="mine").checkpoint.collection.continued == SECOND, "nobody knows"
    rewrite(root, output="yours")
    rung = find_checkpoint(root, output="mine")
    assert rung.checkpoint.collection.continued == FIRST
    assert "another output" in rung.skipped[0].why
    assert rung.words() == [], "it has lost nothing by it"
    assert find_checkpoint(root, output="yours").checkpoint.collection.continued == SECOND


def rewrite(root, **changes):
    """Another collection.json that LATEST means: what a stranger, or a newer version, may have written."""
    path = root / "ckpt-000002/collection.json"
    changed = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=Collection), **changes)
    data = msgspec.json.encode(changed)
    path.write_bytes(data)
    latest = Latest(changed.checkpoint_id, 2, hashlib.sha256(data).hexdigest())
    (root / "LATEST").write_bytes(msgspec.json.encode(latest))


def collection_of(root):
    return msgspec.json.decode((root / "ckpt-000002/collection.json").read_bytes(), type=Collection)


@pytest.mark.parametrize(
    "manifest",
    [
        "../ckpt-000001/participants/environment/env/manifest.json",
        "participants/../participants/environment/env/manifest.json",
        "participants//environment/env/manifest.json",
        "./participants/environment/env/manifest.json",
        "/etc/passwd",
        "",
        "participants/environment/env/manifest.json\0",
        "participants",
    ],
)
def test_no_path_leads_out_of_a_checkpoint(root, manifest):
    ref = collection_of(root).participants[0]
    rewrite(root, participants=(msgspec.structs.replace(ref, manifest=manifest),))
    assert find_checkpoint(root).checkpoint.collection.continued == FIRST


def test_no_link_on_the_way_leads_out_of_a_checkpoint(root):
    outside = root / "outside"
    (root / "ckpt-000002/participants").rename(outside)
    (root / "ckpt-000002/participants").symlink_to(outside)
    rung = find_checkpoint(root)
    assert rung.checkpoint.collection.continued == FIRST
    assert "which is a link" in rung.skipped[0].why


def test_a_folder_that_is_a_link_is_no_checkpoint(root):
    (root / "ckpt-000002").rename(root / "elsewhere")
    (root / "ckpt-000002").symlink_to(root / "elsewhere")
    assert find_checkpoint(root).checkpoint.collection.continued == FIRST
    take(Store(root))
    assert (root / "elsewhere/collection.json").is_file()
    assert (root / "ckpt-000002").is_symlink()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema": 2}, "schema 2; this version reads 1"),
        ({"sequence": 7}, "says it is number 7"),
        ({"checkpoint_id": "c-000002-ff"}, "is not what collection.json says"),
        ({"continued": (EpisodeId("0-0", -1),)}, "damaged: Expected `int` >= 0"),
        ({"continued": (EpisodeId("../x"),)}, "cannot be"),
        ({"continued": (EpisodeId("0-0"), EpisodeId("0-0", 1))}, "names 0-0 twice"),
        ({"restarted": (Restarted(rollout_id="1-0", attempt=0, reason="x"),)}, "names 1-0 twice"),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_passed_over(root, changes, why):
    rewrite(root, **changes)
    rung = find_checkpoint(root)
    assert rung.checkpoint.collection.continued == FIRST
    assert why in rung.skipped[0].why


def test_a_participant_named_twice_is_no_checkpoint(root):
    rewrite(root, participants=collection_of(root).participants * 2)
    assert "names a participant twice" in find_checkpoint(root).skipped[0].why


def test_records_must_be_as_many_as_the_manifest_says(root):
    ref = collection_of(root).participants[0]
    path = root / "ckpt-000002" / ref.manifest
    manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    more = msgspec.structs.replace(manifest.records, record_count=3)
    data = msgspec.json.encode(msgspec.structs.replace(manifest, records=more))
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    rewrite(root, participants=(msgspec.structs.replace(ref, sha256=digest, record_count=3),))
    assert "is damaged" in find_checkpoint(root).skipped[0].why


def test_every_readable_checkpoint_tells_which_attempts_were_used(root):
    assert set(episodes_named(root)) == {*FIRST, *SECOND}
    (root / "LATEST").unlink()
    empty(root / "ckpt-000001/collection.json")
    assert set(episodes_named(root)) == set(SECOND)
    assert list(episodes_named(root / "nothing")) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_folder_that_may_not_be_read_is_passed_over(root):
    (root / "ckpt-000002").chmod(0)
    try:
        assert find_checkpoint(root).checkpoint.collection.continued == FIRST
    finally:
        (root / "ckpt-000002").chmod(0o700)
