"""Checks of the definitions in a file: two workflows or two activities with one name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from durable.cli.lint.meanings import Module, Project
from durable.cli.lint.scopes import Function, Scope


def check_definitions(project: Project, module: Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Two definitions of one name in one block: the second hides the first. In different branches, only one may run."""
    for scope in (module.scope, *(function.scope for function in module.scope.inner_functions())):
        first: dict[str, int] = {}
        for function in scope.functions:
            label = _label(project, scope, function)
            # Skip functions in branches, and methods, whose names include that of their class.
            if label is None or scope.parents.get(function.node) is not scope.node:
                continue
            line = first.setdefault(label, function.node.lineno)
            if line != function.node.lineno:
                yield function.node, "DUR109", f"{label} is defined on line {line} as well"


def _label(project: Project, scope: Scope, function: Function) -> str | None:
    """The kind and name of a workflow or activity; None for other functions, or if the name is not a constant."""
    role = project.role(function).removeprefix("durable.")
    if role not in ("workflow", "activity"):
        return None
    keywords: dict[str | None, ast.expr] = {}
    for decorator in function.node.decorator_list:
        if isinstance(decorator, ast.Call) and project.dotted(decorator.func, scope) == f"durable.{role}":
            keywords = {keyword.arg: keyword.value for keyword in decorator.keywords}
    values = [keywords.get("name", ast.Constant(function.name)), keywords.get("version", ast.Constant(1))]
    if None in keywords or not all(isinstance(value, ast.Constant) for value in values):
        return None
    name, version = (value.value for value in values if isinstance(value, ast.Constant))
    return f"{role} {name!r}" + (f" version {version!r}" if role == "workflow" else "")
