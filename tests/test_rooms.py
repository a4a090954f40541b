"""What the import contract cannot say: purity, size, the one place for fsync."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "triocollect"
MOST_LINES = 300
IMPURE = {"os", "time", "socket", "subprocess", "threading", "trio", "anyio", "httpx", "signal"}
MODULES = sorted(PACKAGE.rglob("*.py"))
FUZZ = sorted((PACKAGE.parent / "fuzz").rglob("*.py"))


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("module", [*MODULES, *FUZZ], ids=lambda one: str(one.relative_to(PACKAGE.parent)))
def test_a_module_holds_one_idea(module):
    lines = len(module.read_text().splitlines())
    assert lines <= MOST_LINES, f"{module} has {lines} lines: split it"


def is_pure(tree: ast.Module) -> bool:
    """Whether a module says so in its docstring."""
    return re.search(r"\bPure\b(?! but)", ast.get_docstring(tree) or "") is not None


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_that_calls_itself_pure_touches_nothing(module):
    tree = ast.parse(module.read_text())
    if is_pure(tree):
        assert IMPURE.isdisjoint(imported(tree)), f"{name_of(module)} is pure"


def test_the_rooms_that_decide_are_pure():
    pure = {name_of(module) for module in MODULES if is_pure(ast.parse(module.read_text()))}
    deciding = {"flight/ledger.py", "flight/budget.py", "collector/reply.py", "collector/resume.py"}
    assert deciding | {"collector/identity.py", "gym/routing.py", "rows/expand.py"} <= pure


def modules_behind(names: list[str]) -> dict[str, str]:
    """All modules that these import, of the fuzz by way of one another: who imports each."""
    importers, ahead = {}, [(name, "its own name") for name in names]
    while ahead:
        name, importer = ahead.pop()
        if importers.setdefault(name, importer) is importer and name.startswith("fuzz"):
            tree = ast.parse(Path(PACKAGE.parent, *name.split(".")).with_suffix(".py").read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    whole = Path(PACKAGE.parent, *node.module.split(".")).is_dir()
                    found = [f"{node.module}.{one.name}" for one in node.names] if whole else [node.module]
                    ahead += [(each, name) for each in found]
                elif isinstance(node, ast.Import):
                    ahead += [(one.name, name) for one in node.names]
    return importers


@pytest.mark.parametrize("oracle", ["oracle", "simulation.oracle", "files.oracle", "disk.demands", "rules"])
def test_an_oracle_knows_nothing_of_the_package_but_the_types_on_the_wire(oracle):
    behind = modules_behind([f"fuzz.{oracle}"])
    known = {name: who for name, who in behind.items() if name.startswith("triocollect")}
    assert not {name: who for name, who in known.items() if not name.startswith("triocollect.protocol.")}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_only_durable_syncs_and_replaces(module):
    if name_of(module) == "durable.py":
        return
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"fsync", "fdatasync"}, f"{name_of(module)}, line {node.lineno}"
            assert ast.unparse(node) not in {"os.replace", "os.rename", "shutil.move"}, name_of(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rename":
            pytest.fail(f"{name_of(module)}, line {node.lineno}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            assert node.func.attr != "replace" or node.keywords, (
                f"{name_of(module)}, line {node.lineno}: Path.replace"
            )
