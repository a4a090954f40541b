"""States and the files that they are kept in."""

import hashlib
import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.participant.counts import CountRecord
from triocollect.errors import DamageError, StateError, StorageError
from triocollect.participant import EpisodeId, decode_state, encode_state
from triocollect.participant.records import Publication, Shelf

ONE = EpisodeId("one", 2)
DIRECTORY = "ckpt-000001"

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["$float", "$dict", "$"]
)
states = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | keys,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def same(one, other):
    """Equal in type, in order, in sign of zero, and NaN to NaN."""
    return repr(one) == repr(other)


@given(states)
def test_every_state_comes_back_exactly_as_it_was(state):
    assert same(decode_state(encode_state(ONE, state)), state)


def test_how_states_look_on_disk():
    state = {"nan": math.nan, "inf": -math.inf, "big": 10**30, "one": {"$x": [1]}, "two": {"$x": 1, "y": 2}}
    assert json.loads(bytes(encode_state(ONE, state))) == {
        "nan": {"$float": "nan"},
        "inf": {"$float": "-inf"},
        "big": 10**30,
        "one": {"$dict": [["$x", [1]]]},
        "two": {"$x": 1, "y": 2},
    }


class Number(int):
    """Looks like an int."""


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": [1, (2,)]}, "state.a[1] is a tuple"),
        (b"x", "state is a bytes"),
        ({"a": {1: 2}}, "state.a has the key 1, a int"),
        ([Number(3)], "state[0] is a Number"),
        ({"a": {"\ud800": 1}}, "state.a has a key that UTF-8 cannot hold"),
        ("\ud800", "state is text that UTF-8 cannot hold"),
        ({"s": {1, 2}}, "state.s is a set"),
    ],
)
def test_what_would_come_back_changed_is_refused_with_its_place(state, place):
    with pytest.raises(StateError, match="one-a2") as refused:
        encode_state(ONE, state)
    assert place in str(refused.value)


def test_a_state_that_is_nested_too_deeply_is_refused():
    state = []
    for _ in range(100_000):
        state = [state]
    with pytest.raises(StateError, match="nested too deeply"):
        encode_state(ONE, state)


@pytest.mark.parametrize("text", [b'{"$float":"big"}', b'{"$dict":[[1,2]]}', b'{"$other":1}', b"nonsense"])
def test_what_no_state_looks_like_is_refused(text):
    with pytest.raises(StateError):
        decode_state(Raw(text))


def record(rollout_id="one", state=1, kind="resources"):
    episode = EpisodeId(rollout_id)
    return CountRecord(
        rollout_id=rollout_id, attempt=0, kind=kind, state=encode_state(episode, state), note="é"
    )


def shelf(root, boot="b1"):
    return Shelf(root, "resources", "counts", boot)


def write(root, *records, boot="b1"):
    return shelf(root, boot).write("c1", DIRECTORY, records, Publication())


def read(root, manifest):
    return shelf(root).read("c1", DIRECTORY, manifest.sha256, CountRecord)


def test_records_are_read_back_as_they_were_written(tmp_path):
    records = [record("one", {"x": [1.5, "ü\u2028\n"]}), record("two")]
    manifest = write(tmp_path, *records)
    back = read(tmp_path, manifest)
    assert [(one.rollout_id, one.note, bytes(one.state)) for one in back] == [
        (one.rollout_id, one.note, bytes(one.state)) for one in records
    ]
    assert (manifest.record_count, write(tmp_path, *records)) == (2, manifest)


def test_no_records_are_a_checkpoint_too(tmp_path):
    assert read(tmp_path, write(tmp_path)) == []


def test_only_the_owner_may_look_and_nothing_temporary_is_left(tmp_path):
    manifest = write(tmp_path, record())
    made = [tmp_path / DIRECTORY, *(tmp_path / DIRECTORY).rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
    files = sorted(path.name for path in made if path.is_file())
    folder = (tmp_path / manifest.path).parent
    digest = hashlib.sha256((folder / files[1]).read_bytes()).hexdigest()
    assert files == ["manifest.json", f"records-{digest}.jsonl"]


def test_a_manifest_is_never_replaced_by_another(tmp_path):
    first = write(tmp_path, record())
    with pytest.raises(StorageError, match="other bytes"):
        write(tmp_path, record(), boot="b2")
    assert read(tmp_path, first)


def test_a_stopped_write_leaves_no_file(tmp_path):
    publication = Publication()
    publication.stop()
    assert shelf(tmp_path).write("c1", DIRECTORY, [record()], publication) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_publishing_is_not_stopped_any_more():
    publication = Publication()
    assert publication.begin()
    publication.stop()
    assert publication.begin()


def test_a_disk_that_fails_leaves_nothing_half_written(tmp_path):
    folder = tmp_path / DIRECTORY / "participants" / "resources"
    folder.mkdir(parents=True)
    (folder / "counts").write_bytes(b"a file where a folder should be")
    with pytest.raises(StorageError, match="counts"):
        write(tmp_path, record())


def test_a_checkpoint_directory_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(StorageError, match="has to see the checkpoint directory"):
        write(tmp_path / "unmounted", record())
    assert not (tmp_path / "unmounted").exists()


@pytest.mark.parametrize("directory", ["..", "../x", "/x", "", ".", "a/../b", "a//b", "a\0b"])
def test_no_place_outside_the_checkpoint_directory_is_touched(tmp_path, directory):
    with pytest.raises(StorageError, match="no place below"):
        shelf(tmp_path).write("c1", directory, [record()], Publication())


@pytest.mark.parametrize("link", [DIRECTORY, f"{DIRECTORY}/participants"])
def test_a_symbolic_link_is_not_followed(tmp_path, link):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(elsewhere)
    with pytest.raises(DamageError, match="symbolic link"):
        write(root, record())
    assert list(elsewhere.iterdir()) == []


def test_a_place_whose_name_no_file_system_takes_is_told_as_one_that_cannot_be_read(tmp_path):
    with pytest.raises(StorageError, match="File name too long"):
        shelf(tmp_path).write("c1", "x" * 300, [record()], Publication())


def test_a_linked_file_is_not_read(tmp_path):
    manifest = write(tmp_path, record())
    path = tmp_path / manifest.path
    path.rename(tmp_path / "real.json")
    path.symlink_to(tmp_path / "real.json")
    with pytest.raises(StorageError, match="cannot read"):
        read(tmp_path, manifest)


def rewritten(root, manifest, **fields):
    """A manifest with other words in it, and its digest."""
    path = root / manifest.path
    told = json.loads(path.read_bytes())
    told["records"] |= fields.pop("records", {})
    data = json.dumps(told | fields).encode()
    path.write_bytes(data)
    return type(manifest)(manifest.path, hashlib.sha256(data).hexdigest(), manifest.record_count)


@pytest.mark.parametrize(
    "fields",
    [
        {"records": {"record_count": 2}},
        {"records": {"path": "../records.jsonl"}},
        {"records": {"sha256": "0" * 64}},
        {"kind": "model"},
        {"instance": "other"},
        {"checkpoint_id": "c2"},
        {"records": {"path": 3}},
    ],
)
def test_a_manifest_that_does_not_fit_is_damage(tmp_path, fields):
    manifest = write(tmp_path, record())
    with pytest.raises(DamageError):
        read(tmp_path, rewritten(tmp_path, manifest, **fields))


def test_a_record_of_another_kind_is_damage(tmp_path):
    with pytest.raises(DamageError, match="kind"):
        read(tmp_path, write(tmp_path, record(kind="agent")))


def test_what_is_too_large_or_no_file_is_not_read(tmp_path):
    manifest = write(tmp_path, record())
    path = tmp_path / manifest.path
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(DamageError, match="more than"):
        read(tmp_path, manifest)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamageError, match="no file"):
        read(tmp_path, manifest)
