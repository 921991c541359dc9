"""Checks of what a file defines: a name that it gives to two workflows or two activities."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from durable.cli.lint.meanings import Module, Project
from durable.cli.lint.scopes import Function, Scope


def check_definitions(project: Project, module: Module) -> Iterator[tuple[ast.stmt, str, str]]:
    """Two definitions of one name in one block: the second hides the first. In other branches it may stand instead."""
    for scope in (module.scope, *(function.scope for function in module.scope.inner_functions())):
        first: dict[str, int] = {}
        for function in scope.functions:
            label = _label(project, scope, function)
            # Neither in a branch nor in a class, whose name is part of the method's.
            if label is None or scope.parents.get(function.node) is not scope.node:
                continue
            line = first.setdefault(label, function.node.lineno)
            if line != function.node.lineno:
                yield function.node, "DUR109", f"{label} is defined on line {line} as well"


def _label(project: Project, scope: Scope, function: Function) -> str | None:
    """What a function is as a workflow or an activity; None for any other one, or if its name cannot be read here."""
    role = project.role(function).removeprefix("durable.")
    if role not in ("workflow", "activity"):
        return None
    given: dict[str | None, ast.expr] = {}
    for decorator in function.node.decorator_list:
        if isinstance(decorator, ast.Call) and project.dotted(decorator.func, scope) == f"durable.{role}":
            given = {keyword.arg: keyword.value for keyword in decorator.keywords}
    values = [given.get("name", ast.Constant(function.name)), given.get("version", ast.Constant(1))]
    if None in given or not all(isinstance(one, ast.Constant) for one in values):
        return None
    name, version = (one.value for one in values if isinstance(one, ast.Constant))
    return f"{role} {name!r}" + (f" version {version!r}" if role == "workflow" else "")
