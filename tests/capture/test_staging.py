"""Cuts of generations on disk: what was staged comes back, or is said to be lost; what is named stays."""

import os
import stat
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from triocollect.capture.retention import remove_files, staged_packs, unnamed
from triocollect.capture.staging import STAGING, Staging, packs_of
from triocollect.errors import DamageError, StorageError
from triocollect.protocol.inference import (
    Cut,
    Finished,
    NotCut,
    Receipt,
    StagedCut,
    accounted,
    key_of,
    parts_of,
)


def a_cut(call_id="c1", tokens=3, **more):
    return StagedCut(call_id=call_id, request="ab", policy="p", tokens=tokens, text="a b c", **more)


@pytest.fixture
def staging(tmp_path):
    return Staging(tmp_path / STAGING)


def test_what_was_staged_comes_back_in_another_process_under_its_keys(staging):
    cuts = [
        a_cut(f"c{n}", token_ids=(1, 2, 3), logprobs=(0.0, -0.5, -1.25), own=Raw(b'{"at":1}'))
        for n in range(5)
    ]
    keys = staging.stage(cuts)
    assert [Staging(staging.folder).fetch(key) for key in keys] == cuts
    assert len(packs_of(keys)) == 1
    assert packs_of(keys) == staged_packs(staging.folder)


def test_a_staged_answer_keeps_to_one_line_however_it_came(staging):
    response = b'{\n  "id": "r",\n  "cost": 1.10\n}'
    first, second = staging.stage([a_cut("c1", 0, response=Raw(response)), a_cut("c2")])
    assert bytes(staging.fetch(first).response) == b'{"id":"r","cost":1.10}'
    assert staging.fetch(second).call_id == "c2"


def test_nobody_else_can_read_what_was_generated(staging):
    (key,) = staging.stage([a_cut()])
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (staging.folder, *staging.folder.iterdir())]
    assert modes == [0o700, 0o600], key


def test_nothing_to_stage_leaves_no_file(staging):
    assert staging.stage([]) == ()
    assert not staging.folder.exists()


def test_the_same_cuts_again_are_the_same_pack(staging):
    assert staging.stage([a_cut()]) == Staging(staging.folder).stage([a_cut()])
    assert len(list(staging.folder.iterdir())) == 1


def test_a_folder_that_nobody_mounted_is_named(tmp_path):
    with pytest.raises(StorageError, match="nowhere is not there"):
        Staging(tmp_path / "nowhere" / STAGING).stage([a_cut()])


@pytest.mark.parametrize("harm", ["gone", "cut short", "a digit changed", "a folder", "a pipe"])
def test_a_pack_that_is_lost_or_damaged_is_said_to_be(staging, harm):
    (key,) = staging.stage([a_cut()])
    (pack,) = staging.folder.iterdir()
    data = pack.read_bytes()
    pack.unlink()
    if harm == "cut short":
        pack.write_bytes(data[:-4])
    elif harm == "a digit changed":
        pack.write_bytes(data.replace(b'"tokens":3', b'"tokens":2'))
    elif harm == "a folder":
        pack.mkdir()
    elif harm == "a pipe":
        os.mkfifo(pack)
    with pytest.raises(DamageError, match=r"staged cut"):
        Staging(staging.folder).fetch(key)


@pytest.mark.parametrize("harm", ["a digit changed", "cut short", "gone"])
def test_damage_that_comes_after_a_pack_was_read_is_said_to_be_there(staging, harm):
    (key,) = staging.stage([a_cut()])
    (pack,) = staging.folder.iterdir()
    (later,) = staging.stage([a_cut("c2")])
    assert staging.fetch(key).tokens == 3
    assert staging.fetch(later).call_id == "c2"  # the one that is at hand now
    data = pack.read_bytes()
    pack.write_bytes(data.replace(b'"tokens":3', b'"tokens":2') if harm == "a digit changed" else data[:-4])
    if harm == "gone":
        pack.unlink()
    with pytest.raises(DamageError, match=r"staged cut"):
        staging.fetch(key)


def test_a_pack_of_any_size_comes_back_and_never_is_in_memory_whole(staging, tmp_path):
    text = "a" * (1 << 20)
    keys = staging.stage(replace(a_cut(f"c{n}"), text=text) for n in range(80))
    reading = Staging(tmp_path / STAGING)
    tracemalloc.start()
    try:
        ends = [reading.fetch(keys[n]).call_id for n in (0, 79)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ends == ["c0", "c79"]
    assert most < 75 << 20


@pytest.mark.parametrize(
    "key", ["", "x:0", "../LATEST:0", f"{'a' * 64}", f"{'a' * 64}:-1", f"{'a' * 64}:01", f"{'A' * 64}:1\n"]
)
def test_what_is_no_key_leads_nowhere(staging, key):
    with pytest.raises(DamageError, match="is no staging key"):
        staging.fetch(key)


def test_a_line_that_a_pack_does_not_have_is_said_to_be_missing(staging):
    (key,) = staging.stage([a_cut()])
    with pytest.raises(DamageError, match="has 1 lines"):
        staging.fetch(key_of(parts_of(key)[0], 1))


@pytest.mark.parametrize(
    ("cut", "says"),
    [
        (a_cut(tokens=0), "it has 0 tokens"),
        (a_cut(token_ids=(1, 2)), "2 token ids for 3 tokens"),
        (a_cut(logprobs=(0.0,) * 4), "4 log-probabilities for 3 tokens"),
    ],
)
def test_parts_of_a_cut_that_end_at_different_tokens_are_never_continued(staging, cut, says):
    (key,) = staging.stage([cut])
    with pytest.raises(DamageError, match=says):
        staging.fetch(key)


def test_a_pack_that_a_checkpoint_names_stays_and_so_does_all_that_is_not_ours(staging):
    (named,) = packs_of(staging.stage([a_cut("named")]))
    (other,) = packs_of(staging.stage([a_cut("other")]))
    foreign = {"notes.txt", f"{'a' * 64}.json", f".{'a' * 64}.jsonl.tmp", f"{'A' * 64}.jsonl"}
    for name in (*foreign, f".{'0a' * 8}.tmp"):
        (staging.folder / name).write_text("")
    (staging.folder / f"{'b' * 64}.jsonl").mkdir()
    assert remove_files(unnamed(staging.folder, {named})) == ()
    stay = {path.name for path in staging.folder.iterdir()}
    assert stay == {f"{named}.jsonl", f"{'b' * 64}.jsonl", *foreign}
    assert unnamed(staging.folder, {named}) == ()
    assert unnamed(staging.folder.with_name("none"), ()) == ()
    staging.folder.with_name("file").write_bytes(b"")
    assert unnamed(staging.folder.with_name("file"), ()) == ()
    assert other not in staged_packs(staging.folder)


CALLS = st.lists(st.sampled_from("abcd"), unique=True)
OUTCOMES = st.lists(
    st.one_of(
        st.builds(Cut, st.sampled_from("abcdx"), st.just("k"), st.integers(1, 9)),
        st.builds(Finished, st.sampled_from("abcdx")),
        st.builds(NotCut, st.sampled_from("abcdx"), st.just("why")),
    )
)


@given(CALLS, OUTCOMES)
def test_whatever_a_receipt_says_every_call_has_one_outcome_and_no_other_has(calls, outcomes):
    told = accounted(calls, Receipt(calls=tuple(outcomes)))
    assert list(told) == calls
    for call, outcome in told.items():
        said = [one for one in outcomes if one.call_id == call]
        assert outcome.call_id == call
        assert outcome == said[0] if len(said) == 1 else isinstance(outcome, NotCut)
