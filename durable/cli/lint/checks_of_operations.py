"""Checks of what a body does with its operations: yields them, drops them, catches what comes out of them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator

from durable.cli.lint import vocabulary
from durable.cli.lint.bodies import Body, body_nodes, is_helper
from durable.cli.lint.checks_of_names import Found
from durable.cli.lint.codes import RULES
from durable.cli.lint.meanings import Instance, Project, is_generator
from durable.cli.lint.scopes import Function, tree_nodes

# Where only a result makes sense; the fields in which an operation would be taken for one.
_VALUE_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.If: ("test",),
    ast.While: ("test",),
    ast.IfExp: ("test",),
    ast.Assert: ("test",),
    ast.BoolOp: ("values",),
    ast.UnaryOp: ("operand",),
    ast.BinOp: ("left", "right"),
    ast.Compare: ("left", "comparators"),
    ast.Subscript: ("value", "slice"),
    ast.FormattedValue: ("value",),
    ast.For: ("iter",),
    ast.comprehension: ("iter",),
    ast.Match: ("subject",),
}
# Built-in functions that make nothing of an operation.
_CONSUMERS = "list tuple set dict sorted sum min max len str int float bool repr any all iter next enumerate".split()
_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.Constant)
_SWALLOWING = ("builtins.BaseException", "builtins.GeneratorExit")


def check_operations(project: Project, body: Body) -> Found:
    """Operations that never run, or that run where they must not."""
    nodes = list(body_nodes(project, body.scope))
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from _use(project, body, node)
        elif isinstance(node, ast.Try | ast.TryStar):
            yield from _try(project, body, node)
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from _suppress(project, body, node)
    if body.is_durable and is_generator(body.function):
        yield from _yields(nodes, _never_reached(body.function.node))


# --- operations that are dropped or misread -----------------------------------------------------------------------


def _use(project: Project, body: Body, node: ast.Call) -> Found:
    scope = body.scope
    made = project.meaning(node, scope)
    parent = scope.parents[node]
    shown = ast.unparse(node.func)
    # A helper may return an operation for its caller to yield; a workflow may not.
    is_returned = isinstance(parent, ast.Return) and project.role(body.function) == "durable.workflow"
    if made == Instance(vocabulary.CONTINUE):
        if isinstance(parent, ast.Expr) or is_returned:
            yield node, "DUR101", f"{shown}(...) is not raised: write 'raise' before it"
        return
    helper = _helper(project, body, node)
    if made != Instance(vocabulary.OP) and helper is None:
        return
    what = f"{shown}(...)" if helper is None else f"helper {shown}(...)"
    if isinstance(parent, ast.Expr) or _is_forgotten(body, node, parent):
        yield node, "DUR101", f"{what} is made and never yielded"
    elif is_returned:
        yield node, "DUR101", f"{what} is returned and never yielded"
    elif helper is None and _is_taken_for_a_result(project, body, node, parent):
        yield node, "DUR106", f"{what} is an operation and no result yet"


def _helper(project: Project, body: Body, node: ast.Call) -> Function | None:
    """The helper of which this call makes a generator or a coroutine, if it is one."""
    function = project.meaning(node.func, body.scope)
    if not isinstance(function, Function) or project.role(function):
        return None
    return function if is_helper(function) else None


def _is_forgotten(body: Body, node: ast.Call, parent: ast.AST) -> bool:
    """Whether the operation is kept in a variable that nobody looks at."""
    if not isinstance(parent, ast.Assign) or parent.value is not node:
        return False
    if len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    if name in body.scope.given_away:
        return False
    # Everywhere in the function, also in functions inside it.
    return not any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        for one in ast.walk(body.function.node)
    )


def _is_taken_for_a_result(project: Project, body: Body, node: ast.Call, parent: ast.AST) -> bool:
    for field in _VALUE_FIELDS.get(type(parent), ()):
        held = getattr(parent, field)
        if held is node or (isinstance(held, list) and node in held):
            return True
    if isinstance(parent, ast.Assign) and parent.value is node:
        return isinstance(parent.targets[0], ast.Tuple | ast.List)
    if isinstance(parent, ast.Starred):
        return True
    if isinstance(parent, ast.Call) and node in parent.args:
        return project.dotted(parent.func, body.scope) in {f"builtins.{name}" for name in _CONSUMERS}
    return False


def _yields(nodes: Iterable[ast.AST], never: set[ast.expr]) -> Found:
    for node in nodes:
        if isinstance(node, ast.Yield) and node not in never:
            yield node, "DUR102", f"'{_short(node)}' is a bare yield"
        elif isinstance(node, ast.YieldFrom) and isinstance(node.value, _LITERALS) and not _is_empty(node.value):
            yield node, "DUR102", f"'{_short(node)}' yields what is no operation"


def _never_reached(function: ast.AST) -> set[ast.expr]:
    """`return x`, then `yield`: another way to make a generator of a body without operations."""
    blocks = (block for node in ast.walk(function) for _, block in ast.iter_fields(node) if isinstance(block, list))
    pairs = (pair for block in blocks for pair in itertools.pairwise(block))
    return {
        after.value
        for before, after in pairs
        if isinstance(before, ast.Return | ast.Raise) and isinstance(after, ast.Expr)
    }


def _is_empty(node: ast.expr) -> bool:
    """`yield from ()` is how a body without operations becomes a generator."""
    return isinstance(node, ast.Tuple | ast.List) and not node.elts


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- blocks that catch what passes through a wait -----------------------------------------------------------------


def _waits(nodes: Iterable[ast.AST]) -> Iterator[ast.YieldFrom | ast.Await]:
    for root in nodes:
        for node in tree_nodes(root, set()):
            if isinstance(node, ast.YieldFrom | ast.Await):
                yield node


def _try(project: Project, body: Body, node: ast.Try | ast.TryStar) -> Found:
    for wait in _waits(node.finalbody):
        yield wait, "DUR103", f"{RULES['DUR103'].title}: '{_short(wait)}'"
    if next(_waits(node.body), None) is None:
        return
    for handler in node.handlers:
        caught = _caught(project, body, handler.type)
        if "builtins.GeneratorExit" in caught:
            for wait in _waits(handler.body):
                yield wait, "DUR103", f"operation while the body is closed: '{_short(wait)}'"
        if _swallows(caught) and not _raises(handler.body):
            said = "except:" if handler.type is None else f"except {ast.unparse(handler.type)}:"
            yield handler, "DUR104", f"'{said}' {RULES['DUR104'].title}"  # type: ignore[misc]  # has a place too
    for statement in node.finalbody:
        for one in tree_nodes(statement, set()):
            if isinstance(one, ast.Return):
                yield one, "DUR104", f"'return' in a finally block {RULES['DUR104'].title}"


def _suppress(project: Project, body: Body, node: ast.With | ast.AsyncWith) -> Found:
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and project.dotted(call.func, body.scope) == "contextlib.suppress":
            caught = {project.dotted(one, body.scope) for one in call.args}
            if _swallows(caught) and next(_waits(node.body), None) is not None:
                yield call, "DUR104", f"'{_short(call)}' {RULES['DUR104'].title}"


def _caught(project: Project, body: Body, kind: ast.expr | None) -> set[str]:
    if kind is None:
        return {"builtins.BaseException"}
    return {project.dotted(one, body.scope) for one in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}


def _swallows(caught: Iterable[str]) -> bool:
    return any(one in _SWALLOWING for one in caught)


def _raises(statements: Iterable[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Raise) for root in statements for one in tree_nodes(root, set()))
