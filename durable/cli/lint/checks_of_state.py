"""Checks of state that differs from process to process: the order of a set, and variables that outlive the body.

The order of a set is a mistake only where it becomes visible. `sorted(found)` and `x in found` are fine, `for x in
found` and `list(found)` are not. Sets of numbers are exempt: their order is the same in every process.

A global variable is a mistake only if a function changes it while the process runs. A table that decorators fill on
import, or a constant, may be read in a body.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from durable.cli.lint.bodies import Body, body_nodes
from durable.cli.lint.checks_of_names import Found
from durable.cli.lint.codes import RULES
from durable.cli.lint.meanings import SET, Instance, Project
from durable.cli.lint.scopes import Assigned, Scope

# Functions whose result does not depend on the order of their argument.
_ORDERLESS = {f"builtins.{name}" for name in "sorted set frozenset sum any all min max len bool".split()}
# Functions whose result has the order of their argument.
_ORDERED = {f"builtins.{name}" for name in "list tuple iter enumerate map filter zip reversed".split()}
_MUTATORS = frozenset(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse rotate "
    "setdefault sort update subtract".split()
)
_CONTAINERS = ("list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "bytearray", "count", "cycle")


def check_state(project: Project, body: Body) -> Found:
    """Find sets whose order becomes visible, and global variables that change."""
    changed = _changed_globals(body.scope.module)
    for node in body_nodes(project, body.scope):
        yield from _order(project, body.scope, node)
        if isinstance(node, ast.Name):
            name = node.id
            if name in changed and isinstance(node.ctx, ast.Load) and _is_global(body.scope, name):
                yield node, "DUR007", f"{name} is changed while the process runs: the body {RULES['DUR007'].title}"
            elif isinstance(node.ctx, ast.Store) and name in body.scope.given_away & body.scope.module.bindings.keys():
                yield node, "DUR007", f"the body changes the global variable {name}"
        elif (root := _changed_attribute(node, body.scope)) is not None:
            yield root, "DUR007", f"the body changes the global variable {ast.unparse(root)}"


# --- sets ---------------------------------------------------------------------------------------------------------


def _order(project: Project, scope: Scope, node: ast.AST) -> Found:
    """A finding for every set whose order this node makes visible."""
    for shown in _ordered_uses(project, scope, node):
        if project.meaning(shown, scope) == Instance(SET):
            yield shown, "DUR006", f"'{_short(shown)}' is a set: the body {RULES['DUR006'].title}"


def _ordered_uses(project: Project, scope: Scope, node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order this node makes visible to the body."""
    match node:
        case ast.For(iter=iterable):
            yield iterable
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            yield from (generator.iter for generator in generators if not _is_orderless(project, scope, node))
        case ast.GeneratorExp(generators=generators) if not _is_orderless(project, scope, node):
            yield from (generator.iter for generator in generators)
        case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
            yield owner
        case ast.Call(func=ast.Attribute(attr="join" | "fromkeys" | "extend"), args=[iterable, *_]):
            yield iterable
        case ast.Call(func=func, args=arguments) if not _is_orderless(project, scope, node):
            dotted = project.dotted(func, scope)
            if dotted in _ORDERED or dotted.startswith("durable."):
                yield from arguments
        case ast.Starred(value=iterable) if not isinstance(scope.parents.get(node), ast.Set):
            yield iterable
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=iterable):
            yield iterable
        case _:
            return


def _is_orderless(project: Project, scope: Scope, node: ast.AST) -> bool:
    """Whether the result is passed directly to a function that ignores its order."""
    parent = scope.parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and project.dotted(parent.func, scope) in _ORDERLESS


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- global variables ---------------------------------------------------------------------------------------------


def _is_global(scope: Scope, name: str) -> bool:
    """Whether a name that is used here belongs to the module."""
    owner = scope.find(name)
    return owner is not None and owner[0].parent is None


@functools.lru_cache(maxsize=16)
def _changed_globals(module: Scope) -> set[str]:
    """The variables of a module that one of its functions assigns or changes in place."""
    changed: set[str] = set()
    for scope in _run_time_scopes(module):
        stored = {item.id for item in scope.nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        changed |= stored & scope.given_away & module.bindings.keys()
        for node in scope.nodes:
            root = _changed_container(node)
            if root is not None and _is_global(scope, root.id) and _holds_container(module, root.id):
                changed.add(root.id)
    return changed


def _run_time_scopes(module: Scope) -> Iterator[Scope]:
    """Every function except those that the module itself calls on import, such as a decorator that fills a table."""
    called = [node.func for node in module.nodes if isinstance(node, ast.Call)]
    decorators = [expression for function in module.functions for expression in function.node.decorator_list]
    at_import = {expression.id for expression in (*called, *decorators) if isinstance(expression, ast.Name)}
    for function in module.functions:
        if function.name not in at_import:
            yield function.scope
            yield from (inner.scope for inner in function.scope.inner_functions())


def _changed_container(node: ast.AST) -> ast.Name | None:
    """The variable whose content this node changes: `x[k] = v`, `del x[k]`, `x.append(v)`, `next(x)`."""
    match node:
        case ast.Subscript(value=ast.Name() as root, ctx=ast.Store() | ast.Del()):
            return root
        case ast.Call(func=ast.Attribute(value=ast.Name() as root, attr=verb)) if verb in _MUTATORS:
            return root
        case ast.Call(func=ast.Name(id="next"), args=[ast.Name() as root, *_]):
            return root
        case _:
            return None


def _changed_attribute(node: ast.AST, scope: Scope) -> ast.Name | None:
    """The global variable whose attribute this node sets."""
    match node:
        case ast.Attribute(value=ast.Name(id=name) as root, ctx=ast.Store()) if _is_global(scope, name):
            return root if all(isinstance(binding, Assigned) for binding in scope.module.bindings[name]) else None
        case _:
            return None


def _holds_container(module: Scope, name: str) -> bool:
    """Whether a variable of a module is a list, a dict or the like, judged by the values assigned to it."""
    for binding in module.bindings[name]:
        value = binding.value if isinstance(binding, Assigned) else None
        match value:
            case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id=made) | ast.Attribute(attr=made)) if made in _CONTAINERS:
                return True
            case _:
                pass
    return False
