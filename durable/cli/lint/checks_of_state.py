"""Checks of what a body learns from Python itself: the order of a set, and variables that outlive it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from durable.cli.lint.bodies import Body, body_nodes
from durable.cli.lint.checks_of_names import Found
from durable.cli.lint.codes import RULES
from durable.cli.lint.meanings import SET, Instance, Project
from durable.cli.lint.scopes import Assigned, Scope

# Functions to which the order of what they are given does not matter.
_ORDERLESS = {f"builtins.{name}" for name in "sorted set frozenset sum any all min max len bool".split()}
# Functions that pass the order on.
_ORDERED = {f"builtins.{name}" for name in "list tuple iter enumerate map filter zip reversed".split()}
_MUTATORS = frozenset(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse rotate "
    "setdefault sort update subtract".split()
)
_CONTAINERS = ("list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "bytearray", "count", "cycle")


def check_state(project: Project, body: Body) -> Found:
    """Sets whose order shows, and global variables that change."""
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
    for shown in _ordered_uses(project, scope, node):
        if project.meaning(shown, scope) == Instance(SET):
            yield shown, "DUR006", f"'{_short(shown)}' is a set: the body {RULES['DUR006'].title}"


def _ordered_uses(project: Project, scope: Scope, node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order this node makes visible."""
    match node:
        case ast.For(iter=iterable):
            yield iterable
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            yield from (one.iter for one in generators if not _is_orderless(project, scope, node))
        case ast.GeneratorExp(generators=generators) if not _is_orderless(project, scope, node):
            yield from (one.iter for one in generators)
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
    """Whether the result goes straight to something that does not care for its order."""
    parent = scope.parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and project.dotted(parent.func, scope) in _ORDERLESS


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- global variables ---------------------------------------------------------------------------------------------


def _is_global(scope: Scope, name: str) -> bool:
    found = scope.find(name)
    return found is not None and found[0].parent is None


@functools.lru_cache(maxsize=16)
def _changed_globals(module: Scope) -> set[str]:
    """The module's variables that one of its functions sets anew or changes in place."""
    changed: set[str] = set()
    for scope in _run_time_scopes(module):
        stored = {one.id for one in scope.nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        changed |= stored & scope.given_away & module.bindings.keys()
        for node in scope.nodes:
            root = _changed_container(node)
            if root is not None and _is_global(scope, root.id) and _holds_container(module, root.id):
                changed.add(root.id)
    return changed


def _run_time_scopes(module: Scope) -> Iterator[Scope]:
    """Every function but those that the module itself calls: a decorator that fills a table has done so by then."""
    called = [node.func for node in module.nodes if isinstance(node, ast.Call)]
    decorators = [one for function in module.functions for one in function.node.decorator_list]
    at_import = {one.id for one in (*called, *decorators) if isinstance(one, ast.Name)}
    for function in module.functions:
        if function.name not in at_import:
            yield function.scope
            yield from (inner.scope for inner in function.scope.inner_functions())


def _changed_container(node: ast.AST) -> ast.Name | None:
    """The variable whose contents this changes: `x[k] = v`, `del x[k]`, `x.append(v)`, `next(x)`."""
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
    """A global object of which a body sets an attribute."""
    match node:
        case ast.Attribute(value=ast.Name(id=name) as root, ctx=ast.Store()) if _is_global(scope, name):
            return root if all(isinstance(one, Assigned) for one in scope.module.bindings[name]) else None
        case _:
            return None


def _holds_container(module: Scope, name: str) -> bool:
    """Whether a module's variable is a list, a dict or the like, by what it is set to."""
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
