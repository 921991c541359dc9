"""Checks of what a body calls and reads outside itself: clock, randomness, I/O, threads, environment, engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from durable.cli.lint import vocabulary
from durable.cli.lint.bodies import Body, body_nodes
from durable.cli.lint.codes import RULES
from durable.cli.lint.foreign import PATH_IO_METHODS, code_of_call, code_of_read
from durable.cli.lint.meanings import External, Meaning, Project
from durable.cli.lint.scopes import Function

Found = Iterator[tuple[ast.expr | ast.stmt, str, str]]
# Usual names of an engine whose origin cannot be traced, and methods that are called on it.
_ENGINE_NAMES = ("engine", "workflow_engine")
_ENGINE_CALLS = ("start", "send_event", "query_status", "query_result", "cancel", "terminate", "recover", "shutdown")


def check_names(project: Project, body: Body) -> Found:
    """Find calls and reads of names that do not belong in a body."""
    for node in body_nodes(project, body.scope):
        if isinstance(node, ast.Call):
            yield from _call(project, body, node)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            code = code_of_read(project.dotted(node, body.scope))
            if code is not None:
                yield node, code, f"{ast.unparse(node)} {RULES[code].title}"


def _call(project: Project, body: Body, node: ast.Call) -> Found:
    """The findings for one call, by the meaning of the called expression."""
    meaning = project.meaning(node.func, body.scope)
    shown = _shown(node.func)
    if isinstance(meaning, Function):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "fn":
            yield node, "DUR107", f"{shown}() {RULES['DUR107'].title}"
        return
    if _is_engine(meaning, node.func):
        yield node, "DUR105", f"{shown}() {RULES['DUR105'].title}"
        return
    if meaning == External(f"{vocabulary.ACTIVITY}.fn"):
        yield node, "DUR107", f"{shown}() {RULES['DUR107'].title}"
    elif isinstance(meaning, External):
        code = code_of_call(meaning.dotted, node)
        if code is not None:
            yield node, code, f"{shown}() {RULES[code].title}"
    elif meaning is None and isinstance(node.func, ast.Attribute) and node.func.attr in PATH_IO_METHODS:
        yield node, "DUR003", f"{shown}() {RULES['DUR003'].title}"


def _is_engine(meaning: Meaning | None, func: ast.expr) -> bool:
    """Whether a call goes to an engine: by its meaning, or by a usual name if the meaning is unknown."""
    if isinstance(meaning, External):
        return meaning.dotted.startswith(vocabulary.ENGINES)
    match func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=verb) if meaning is None:
            return name in _ENGINE_NAMES and verb in _ENGINE_CALLS
        case _:
            return False


def _shown(node: ast.expr) -> str:
    """The source of an expression, shortened."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
