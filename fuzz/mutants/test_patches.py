"""Every planted flaw names an invariant and applies to the tree as it is; one that nobody names is told."""

import pytest

from fuzz.invariants import INVARIANTS
from fuzz.mutants.run import PATCHES, Flaw, Seen, copy, flaw_of, judged, plant


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    place = tmp_path_factory.mktemp("tree")
    copy(place)
    return place


def test_there_are_flaws_of_every_invariant():
    flaws = [flaw_of(patch) for patch in PATCHES.glob("*.patch")]
    assert len(flaws) >= 50
    assert {flaw.invariant for flaw in flaws} == INVARIANTS.keys()


@pytest.mark.parametrize("patch", sorted(PATCHES.glob("*.patch")), ids=lambda patch: patch.stem)
def test_a_flaw_changes_the_package_and_nothing_else(patch, tree):
    flaw = flaw_of(patch)
    plant(flaw, tree, "--check")
    changed = [line for line in patch.read_text().splitlines() if line.startswith("+++ ")]
    assert changed
    assert all(line.startswith("+++ b/triocollect/") for line in changed)


def test_a_flaw_that_turns_nothing_red_or_names_another_invariant_is_told(tmp_path):
    flaw = Flaw(tmp_path / "gate_stays_closed.patch", 5)
    assert "nobody noticed" in judged(flaw, Seen(red=False, named=frozenset(), words=""))
    assert "named: 3, 8" in judged(flaw, Seen(red=True, named=frozenset({8, 3}), words="..."))
    assert judged(flaw, Seen(red=True, named=frozenset({5, 8}), words="")) is None


@pytest.mark.parametrize("first", ["", "a flaw", "invariant 99: no such"])
def test_a_patch_that_names_no_invariant_is_refused_by_its_name(tmp_path, first):
    patch = tmp_path / "one.patch"
    patch.write_text(first + "\n")
    with pytest.raises(ValueError, match=r"one\.patch: the first line has to name an invariant"):
        flaw_of(patch)
