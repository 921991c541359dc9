"""Parsed Python files: their imports, their functions, and the imported names that they use. For the house rules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Source:
    """A parsed file. It need not exist."""

    path: str
    text: str
    tree: ast.Module = attrs.field(
        init=False, default=attrs.Factory(lambda source: ast.parse(source.text), takes_self=True)
    )


def files(*rooms: str) -> list[Source]:
    """Every Python file in some top-level folders."""
    return [read(path) for path in sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))]


@functools.cache
def read(path: Path) -> Source:
    """An existing file, parsed once for all rules."""
    return Source(path.relative_to(ROOT).as_posix(), path.read_text())


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every imported dotted name. `from a import b` gives `a.b`, which lies below `a` whatever b is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


def functions(tree: ast.AST) -> list[FunctionNode]:
    """Every function and method, including nested ones."""
    return [node for node in ast.walk(tree) if isinstance(node, FunctionNode)]


def inside_functions(tree: ast.AST) -> set[ast.stmt]:
    """The imports inside functions."""
    return {node for function in functions(tree) for node, _ in imports(function)}


def uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every use of an imported name, resolved: `dt.datetime.now` after `import datetime as dt`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops = [alias.name.split(".")[0] for alias in node.names]
            names |= {top: top for top in tops} | {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    inner = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and node not in inner:
            head, dot, rest = ast.unparse(node).partition(".")
            if head in names:
                yield node, f"{names[head]}{dot}{rest}"
