"""Checks of how a body uses its operations: whether it yields them, drops them, or catches what passes through them.

Calling an activity only makes an operation, so forgetting `yield from` is the most common mistake: Python does not
complain, and nothing happens. A call that makes an operation is judged by the node around it:

- an expression statement, or a variable that is never used: the operation is dropped (DUR101);
- a place in which only a result makes sense, such as the test of an `if`: it is taken for a result (DUR106);
- anything else, such as an argument of an unknown function: nothing is reported, because it may be yielded there.

The same holds for helpers, with one difference: a helper is a generator, so iterating over it is allowed.

The second half is about exceptions that pass through every wait: the cancellation of a workflow and the closing of its
body. A body that swallows them would continue (DUR104), and an operation in a `finally` would run while the body is
being closed (DUR103).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator

from durable.cli.lint import vocabulary
from durable.cli.lint.bodies import Body, body_nodes, is_helper
from durable.cli.lint.checks_of_names import Found
from durable.cli.lint.codes import RULES
from durable.cli.lint.meanings import ROLES, Instance, Project, is_generator
from durable.cli.lint.scopes import Function, tree_nodes

# The fields of nodes in which only a result makes sense, so that an operation there is a mistake.
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
    ast.comprehension: ("iter", "ifs"),
    ast.Match: ("subject",),
    ast.match_case: ("guard",),
}
# Built-in functions that cannot use an operation. Those in `_ITERATING` can use a generator, `_INSPECTING` cannot.
_ITERATING = "list tuple set dict sorted sum min max any all iter next enumerate".split()
_INSPECTING = "len str int float bool repr isinstance".split()
# Built-ins that cannot use operations among the items of their argument, and those that cannot use a function that
# makes operations.
_AGGREGATING = {f"builtins.{name}" for name in ("any", "all", "sum", "min", "max", "sorted")}
_CALLING_BACK = {f"builtins.{name}" for name in ("filter", "min", "max", "sorted")}
# Nodes that only test a variable and do not pass its value on.
_TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert, ast.UnaryOp, ast.Compare, ast.FormattedValue)
_COLLECTING = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.List, ast.Tuple, ast.Set)
_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.GeneratorExp, ast.Constant)
_SWALLOWING = ("builtins.BaseException", "builtins.GeneratorExit")


def check_operations(project: Project, body: Body) -> Found:
    """Find operations that never run, that run where they must not, or whose errors are swallowed."""
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
    """The findings for one call that makes an operation, a next round, or a helper that has not run."""
    scope = body.scope
    made = project.meaning(node, scope)
    parent = scope.parents[node]
    shown = ast.unparse(node.func)
    # A helper may return an operation for its caller to yield; a workflow may not.
    is_returned = isinstance(parent, ast.Return) and project.role(body.function) == "durable.workflow"
    if made == Instance(vocabulary.CONTINUE):
        if isinstance(parent, ast.Expr) or is_returned or _is_forgotten(project, body, node):
            yield node, "DUR108", f"{shown}(...) is made and never raised"
        return
    yield from _functions_passed(project, body, node)
    helper = _helper(project, body, node)
    if made != Instance(vocabulary.OP) and helper is None:
        return
    subject = f"{shown}(...)" if helper is None else f"helper {shown}(...)"
    if isinstance(parent, ast.Expr) or _is_forgotten(project, body, node):
        yield node, "DUR101", f"{subject} is made and never yielded"
    elif is_returned:
        yield node, "DUR101", f"{subject} is returned and never yielded"
    elif _is_taken_for_a_result(project, body, node, is_op=helper is None):
        problem = "is an operation, not a result" if helper is None else "has not run"
        yield node, "DUR106", f"{subject} {problem}"


def _functions_passed(project: Project, body: Body, node: ast.Call) -> Found:
    """Functions that make operations, passed to a built-in that uses their result: `filter(is_paid, orders)`."""
    if project.dotted(node.func, body.scope) not in _CALLING_BACK:
        return
    functions = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if project.dotted(node.func, body.scope) == "builtins.filter":
        functions = node.args[:1]
    for function in functions:
        meaning = project.meaning(function, body.scope)
        is_made = isinstance(meaning, Instance) and meaning.kind in (vocabulary.ACTIVITY, vocabulary.WORKFLOW)
        if isinstance(meaning, Function):
            is_made = project.role(meaning) in ROLES or (not project.role(meaning) and is_helper(meaning))
        if is_made:
            yield function, "DUR106", f"{ast.unparse(function)} does not return a value that can be tested or compared"


def _helper(project: Project, body: Body, node: ast.Call) -> Function | None:
    """The helper that this call calls, which only makes a generator or coroutine; None for any other call."""
    function = project.meaning(node.func, body.scope)
    if not isinstance(function, Function) or project.role(function):
        return None
    return function if is_helper(function) else None


def _is_forgotten(project: Project, body: Body, node: ast.Call) -> bool:
    """Whether the operation, or a list with it, is assigned to a variable whose value is never used."""
    parents = body.scope.parents
    value: ast.AST = node
    if isinstance(parents[node], _COLLECTING):
        value = parents[node]
    statement = parents[value]
    target = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    if not isinstance(target, ast.Name) or target.id in body.scope.given_away:
        return False
    name = target.id
    is_alone = value is node
    if not is_alone and len(body.scope.bindings[name]) > 1:
        # For example, a list that is made in a `try` and replaced in its handler.
        return False
    # Look everywhere in the function, also in functions inside it.
    reads = [read for read in ast.walk(body.function.node) if isinstance(read, ast.Name) and read.id == name]
    reads = [read for read in reads if isinstance(read.ctx, ast.Load)]
    if not all(read in parents for read in reads):
        return False
    if all(_is_only_inspected(project, body, read, is_alone=is_alone) for read in reads):
        return True
    return _is_overwritten(parents, statement, name)


def _is_only_inspected(project: Project, body: Body, name: ast.Name, *, is_alone: bool) -> bool:
    """Whether a variable is only examined here: its length, its truth, or whether it is None."""
    parent = body.scope.parents[name]
    if isinstance(parent, ast.Call):
        return project.dotted(parent.func, body.scope) in {f"builtins.{function}" for function in _INSPECTING}
    return is_alone and isinstance(parent, _TESTS) and _is_in_value_field(parent, name)


def _is_overwritten(parents: dict[ast.AST, ast.AST], statement: ast.AST, name: str) -> bool:
    """Whether the next statement of the block that mentions the variable assigns another value to it."""
    block = next(
        field
        for _, field in ast.iter_fields(parents[statement])
        if isinstance(field, list) and any(item is statement for item in field)
    )
    for following in block[block.index(statement) + 1 :]:
        mentions = [item for item in ast.walk(following) if isinstance(item, ast.Name) and item.id == name]
        if mentions:
            return isinstance(following, ast.Assign) and following.targets == mentions
    return False


def _is_taken_for_a_result(project: Project, body: Body, node: ast.Call, *, is_op: bool) -> bool:
    """Whether only a result makes sense here. A helper is a generator, so iterating over it is allowed."""
    value: ast.AST = node
    while isinstance(body.scope.parents[value], ast.NamedExpr):
        # In `if (paid := is_paid(order))` the `if` tests what the call returned.
        value = body.scope.parents[value]
    parent = body.scope.parents[value]
    if (
        value is not node
        and isinstance(parent, ast.Compare)
        and all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
    ):
        # `if (op := refund(order)) is not None` looks at the operation itself, and may yield it afterwards.
        return False
    if _is_in_value_field(parent, value):
        return is_op or not (isinstance(parent, ast.For | ast.comprehension) and parent.iter is value)
    if isinstance(parent, ast.Assign):
        return is_op and isinstance(parent.targets[0], ast.Tuple | ast.List)
    if isinstance(parent, ast.Starred):
        return is_op
    if isinstance(parent, ast.Call):
        return node in parent.args and _takes_results(project, body, parent, is_op=is_op)
    around = body.scope.parents.get(parent)
    if isinstance(around, ast.Call) and parent in around.args:
        called = project.dotted(around.func, body.scope)
        if isinstance(parent, ast.Lambda):
            return called == "builtins.filter"
        return isinstance(parent, _COLLECTING) and called in _AGGREGATING
    # For example, `order in [load(id)]`.
    return isinstance(parent, _COLLECTING) and isinstance(around, ast.Compare)


def _is_in_value_field(parent: ast.AST, node: ast.AST) -> bool:
    """Whether a node is in a field of its parent in which only a result makes sense."""
    parts = [getattr(parent, field) for field in _VALUE_FIELDS.get(type(parent), ())]
    return any(part is node or (isinstance(part, list) and node in part) for part in parts)


def _takes_results(project: Project, body: Body, call: ast.Call, *, is_op: bool) -> bool:
    """Whether the called function cannot use an operation, or a helper if `is_op` is false."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant | ast.JoinedStr | ast.Dict):
        # For example, `format` of a string literal, or `get` of a dict display.
        return True
    names = [*_INSPECTING, *(_ITERATING if is_op else ())]
    return project.dotted(call.func, body.scope) in {f"builtins.{name}" for name in names}


def _yields(nodes: Iterable[ast.AST], never: set[ast.expr]) -> Found:
    """Yields that the runner would refuse: bare ones, and `yield from` of a literal."""
    for node in nodes:
        if isinstance(node, ast.Yield) and node not in never:
            yield node, "DUR102", f"'{_short(node)}' is a bare yield"
        elif isinstance(node, ast.YieldFrom) and isinstance(node.value, _LITERALS) and not _is_empty(node.value):
            yield node, "DUR102", f"'{_short(node)}' does not yield an operation"


def _never_reached(function: ast.AST) -> set[ast.expr]:
    """Yields directly after a `return` or `raise`: a way to make a generator of a body without operations."""
    blocks = (block for node in ast.walk(function) for _, block in ast.iter_fields(node) if isinstance(block, list))
    pairs = (pair for block in blocks for pair in itertools.pairwise(block))
    return {
        after.value
        for before, after in pairs
        if isinstance(before, ast.Return | ast.Raise) and isinstance(after, ast.Expr)
    }


def _is_empty(node: ast.expr) -> bool:
    """Whether it is `()` or `[]`: `yield from ()` makes a generator of a body without operations."""
    return isinstance(node, ast.Tuple | ast.List) and not node.elts


def _short(node: ast.AST) -> str:
    """The source of a node, shortened, without outer parentheses."""
    text = ast.unparse(node)
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- blocks that catch what passes through a wait -----------------------------------------------------------------


def _waits(nodes: Iterable[ast.AST]) -> Iterator[ast.YieldFrom | ast.Await]:
    """Every wait below the nodes, outside of inner functions."""
    for root in nodes:
        for node in tree_nodes(root, set()):
            if isinstance(node, ast.YieldFrom | ast.Await):
                yield node


def _try(project: Project, body: Body, node: ast.Try | ast.TryStar) -> Found:
    """Operations in a `finally`, and handlers that swallow a cancellation or the closing of the body."""
    for wait in _waits(node.finalbody):
        yield wait, "DUR103", f"{RULES['DUR103'].title}: '{_short(wait)}'"
    if next(_waits(node.body), None) is None:
        return
    for handler in node.handlers:
        caught = _caught(project, body, handler.type)
        if "builtins.GeneratorExit" in caught:
            for wait in _waits(handler.body):
                yield wait, "DUR103", f"operation while the body is being closed: '{_short(wait)}'"
        if _swallows(caught) and not _raises(handler.body):
            clause = "except:" if handler.type is None else f"except {ast.unparse(handler.type)}:"
            yield handler, "DUR104", f"'{clause}' {RULES['DUR104'].title}"  # type: ignore[misc]  # has a line too
    for statement in node.finalbody:
        for inner in tree_nodes(statement, set()):
            if isinstance(inner, ast.Return):
                yield inner, "DUR104", f"'return' in a finally block {RULES['DUR104'].title}"


def _suppress(project: Project, body: Body, node: ast.With | ast.AsyncWith) -> Found:
    """`contextlib.suppress` with a class that swallows a cancellation, around a wait."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and project.dotted(call.func, body.scope) == "contextlib.suppress":
            caught = {project.dotted(argument, body.scope) for argument in call.args}
            if _swallows(caught) and next(_waits(node.body), None) is not None:
                yield call, "DUR104", f"'{_short(call)}' {RULES['DUR104'].title}"


def _caught(project: Project, body: Body, kind: ast.expr | None) -> set[str]:
    """The names of the classes that a handler catches. A bare `except:` catches `BaseException`."""
    if kind is None:
        return {"builtins.BaseException"}
    return {project.dotted(cls, body.scope) for cls in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}


def _swallows(caught: Iterable[str]) -> bool:
    """Whether a handler for these classes catches the closing of a body, and so keeps it running."""
    return any(name in _SWALLOWING for name in caught)


def _raises(statements: Iterable[ast.stmt]) -> bool:
    """Whether the statements contain a `raise`, outside of inner functions."""
    return any(isinstance(node, ast.Raise) for root in statements for node in tree_nodes(root, set()))
