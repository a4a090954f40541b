"""The package as it would be if nobody had ever asked for telemetry: a copy without the calls of its hooks.

`without_hooks(source)` takes a module's text. What it cannot take out is an error, never left in.
"""

import ast
import compileall
import shutil
from pathlib import Path
from typing import Final

from tests.bench.harness import BenchError

HOOKS: Final = {
    "triocollect.telemetry": ("begin_run", "bind", "bind_episode", "carried", "count", "during", "span"),
    "triocollect.servers.observed": ("observe",),
}


def copy_package(package: Path, folder: Path, *, hooks: bool) -> None:
    """A copy of the package in `folder`, with its hooks or without."""
    copy = folder / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if not hooks:
        for module in sorted(copy.rglob("*.py")):
            if "telemetry" not in module.relative_to(copy).parts[:1]:
                module.write_text(without_hooks(module.read_text()))
    compileall.compile_dir(copy, quiet=1)  # as a package is that was installed


def without_hooks(source: str) -> str:
    """The same module, without a call of a hook. Raises BenchError for one in a place that is not known."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in HOOKS.get(node.module or "", ())
    }
    if not names:
        return source
    stripped = ast.fix_missing_locations(_Stripper(names).visit(tree))
    left = {node.id for node in ast.walk(stripped) if isinstance(node, ast.Name)} & names
    if left:
        raise BenchError(f"the hooks {', '.join(sorted(left))} stand where they cannot be taken out")
    return ast.unparse(stripped)


class _Stripper(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def _is_hook(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._names

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if node.module not in HOOKS:
            return node
        node.names = [alias for alias in node.names if (alias.asname or alias.name) not in self._names]
        return node if node.names else None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """`count(…)` and the like, as a statement."""
        return None if self._is_hook(node.value) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """`if error.code in …: count(…)` keeps its question, which costs what it costs, and asks in vain."""
        kept = self.generic_visit(node)
        assert isinstance(kept, ast.If)
        kept.body = kept.body or [ast.Pass()]
        return kept

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """`with span(…):`, alone or among others."""
        self.generic_visit(node)
        node.items = [item for item in node.items if not self._is_hook(item.context_expr)]
        return node if node.items else node.body

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """`{**headers, **carried()}`."""
        self.generic_visit(node)
        pairs = zip(node.keys, node.values, strict=True)
        kept = [(key, value) for key, value in pairs if key is not None or not self._is_hook(value)]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return node
