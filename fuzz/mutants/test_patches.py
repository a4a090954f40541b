"""Every planted flaw names an invariant and applies to the tree as it is; one that nobody names is told."""

import pytest

from fuzz.invariants import INVARIANTS
from fuzz.mutants.order import ASKED_BY, QUICKEST_FIRST, in_order
from fuzz.mutants.run import PATCHES, ROOT, Flaw, Seen, copy, flaw_of, import_fault, judged, plant


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


def test_a_flaw_after_which_nothing_can_be_imported_is_told(tree, tmp_path):
    assert import_fault(tree) is None
    (tmp_path / "triocollect").mkdir()
    (tmp_path / "triocollect" / "__init__.py").write_text("import not_there\n")
    assert "not_there" in import_fault(tmp_path)


@pytest.mark.parametrize("invariant", [None, *INVARIANTS])
def test_every_module_is_looked_at_in_whatever_order(invariant):
    modules = {path.stem for path in (ROOT / "fuzz").glob("test_*.py")}
    assert modules >= {*QUICKEST_FIRST} >= {name for names in ASKED_BY.values() for name in names}
    order = in_order(modules, invariant)
    assert sorted(order) == sorted(modules)
    assert tuple(order[: len(ASKED_BY.get(invariant, ()))]) == ASKED_BY.get(invariant, ())
    assert in_order(["test_of_tomorrow", "test_tally"], invariant) == ["test_tally", "test_of_tomorrow"]
