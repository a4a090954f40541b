"""What the import contract cannot say: purity, size, the one place for fsync."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "triocollect"
MOST_LINES = 300
PURE = {
    "protocol",
    "metrics",
    "events.py",
    "flight/ledger.py",
    "flight/budget.py",
    "collector/body.py",
    "collector/outcome.py",
    "collector/resume.py",
    "collector/identity.py",
    "gym/routing.py",
    "gym/bodies.py",
    "gym/episodes.py",
    "gym/records.py",
    "gym/config_tree.py",
    "gym/counted_zeros.py",
    "rows/expand.py",
    "rows/types.py",
    "report/run_report.py",
    "report/tally.py",
    "report/eta.py",
    "report/final.py",
    "deployment/plan.py",
}
IMPURE = {"os", "time", "socket", "subprocess", "threading", "trio", "anyio", "httpx", "signal"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_holds_one_idea(module):
    lines = len(module.read_text().splitlines())
    assert lines <= MOST_LINES, f"{name_of(module)} has {lines} lines: split it"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_pure_module_touches_nothing(module):
    name = name_of(module)
    if name in PURE or name.partition("/")[0] in PURE:
        assert IMPURE.isdisjoint(imported(ast.parse(module.read_text()))), f"{name} is pure"


def test_every_pure_module_is_there():
    assert {name for name in PURE if not (PACKAGE / name).exists()} == set()


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_only_durable_syncs_and_replaces(module):
    if name_of(module) == "durable.py":
        return
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"fsync", "fdatasync"}, f"{name_of(module)}, line {node.lineno}"
            assert ast.unparse(node) not in {"os.replace", "os.rename", "shutil.move"}, name_of(module)
