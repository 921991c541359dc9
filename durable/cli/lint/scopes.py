"""The names of one file: which function binds which name, and to what.

Knows Python's scopes as far as a lint needs them. Lambdas and comprehensions count as part of their function, and names
bound in a class are ignored. Knows nothing about the meaning of a name.

A name may have several bindings, in the order of the source, because reading cannot tell which of them ran last. All
nodes of a scope, and the parent of each node, are collected once, when the scope is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

import attrs

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_ASSIGNING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.withitem)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@attrs.frozen(eq=False)
class Imported:
    """Bound by an import to this dotted name. A leading dot marks a name resolved from a relative import."""

    dotted: str


@attrs.frozen(eq=False)
class Assigned:
    """Bound to the value of an expression, or to a value with this annotation, or both."""

    value: ast.expr | None = None
    annotation: ast.expr | None = None


@attrs.frozen(eq=False)
class Function:
    """A function defined in the file, and the scope inside it."""

    node: FunctionNode
    scope: Scope

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return self.node.name


class Opaque:
    """Bound to an unknown value, such as a parameter or the variable of a loop."""


OPAQUE = Opaque()
Binding: TypeAlias = Imported | Assigned | Function | Opaque


class Scope:
    """The names that a module or function binds. Building it walks the nodes of the scope once."""

    def __init__(self, node: ast.Module | FunctionNode, parent: Scope | None, package: str) -> None:
        self.node = node
        self.parent = parent
        # The package that relative imports start from.
        self.package = package
        self.bindings: dict[str, list[Binding]] = {}
        # Names that `global` and `nonlocal` hand to an outer scope.
        self.given_away: set[str] = set()
        # The modules of `from module import *`, in order.
        self.stars: list[str] = []
        self.functions: list[Function] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes = tuple(self._walk())
        for child in self.nodes:
            self._note(child)
        if isinstance(node, FunctionNode):
            self._note_parameters(node.args)

    @property
    def module(self) -> Scope:
        """The scope of the whole file."""
        return self if self.parent is None else self.parent.module

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name used here, and its bindings; None for a built-in or unknown name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and name not in scope.given_away:
                return scope, scope.bindings[name]
            scope = scope.parent
        return None

    def inner_functions(self) -> Iterator[Function]:
        """Every function in this scope, including nested ones."""
        for function in self.functions:
            yield function
            yield from function.scope.inner_functions()

    # --- collecting -----------------------------------------------------------------------------------------------

    def _walk(self) -> Iterator[ast.AST]:
        """Every node of this scope. Nested functions and classes are included, but not their bodies."""
        stack: list[ast.AST] = list(reversed(self.node.body))
        self.parents.update((child, self.node) for child in stack)
        while stack:
            node = stack.pop()
            yield node
            inside = _outside_parts(node) if isinstance(node, _NESTED) else list(ast.iter_child_nodes(node))
            self.parents.update((child, node) for child in inside)
            stack.extend(reversed(inside))

    def _note(self, node: ast.AST) -> None:
        """Record the names that a statement, an import or a pattern binds."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    self._bind(alias.asname or top, Imported(alias.name if alias.asname else top))
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                self.stars.append(self._source(node))
            case ast.ImportFrom(names=names):
                for alias in names:
                    self._bind(alias.asname or alias.name, Imported(f"{self._source(node)}.{alias.name}"))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node, is_name=True)
            case ast.ClassDef(name=name):
                self._bind(name, OPAQUE)
                for method in _methods(node):
                    self._define(method, is_name=False)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, Assigned(value))
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                self._assign(target, Assigned(value, annotation))
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, Assigned(value))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                # Most context managers of interest return themselves: files, clients, engines.
                self._assign(target, Assigned(value))
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.given_away.update(names)
            case ast.Lambda(args=arguments):
                self._note_parameters(arguments)
            case (
                ast.ExceptHandler(name=str() as name)
                | ast.MatchAs(name=str() as name)
                | ast.MatchStar(name=str() as name)
            ):
                self._bind(name, OPAQUE)
            case ast.Name(id=name, ctx=ast.Store()) if not isinstance(self.parents[node], _ASSIGNING):
                # The variable of a loop, a comprehension or a pattern.
                self._bind(name, OPAQUE)
            case _:
                pass

    def _source(self, node: ast.ImportFrom) -> str:
        """The dotted name of the module that an import names; with a leading dot for a relative import."""
        if not node.level:
            return node.module or ""
        package = self.package.split(".")
        base = package[: len(package) - node.level + 1]
        # The leading dot says that it is the path of a file, not a top-level module of that name.
        return "." + ".".join([*base, *([node.module] if node.module else [])])

    def _define(self, node: FunctionNode, *, is_name: bool) -> None:
        """Record a function. A method is recorded as a function, but its name is not bound in the scope."""
        function = Function(node, Scope(node, self, self.package))
        self.functions.append(function)
        if is_name:
            self._bind(node.name, function)

    def _assign(self, target: ast.expr, binding: Assigned) -> None:
        """Bind a plain name. Targets such as `x.y` and `x[0]` bind nothing."""
        if isinstance(target, ast.Name):
            self._bind(target.id, binding)

    def _note_parameters(self, arguments: ast.arguments) -> None:
        """Record parameters. Those with an annotation may have a meaning; `*args` and `**kwargs` never do."""
        for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            annotation = parameter.annotation
            self._bind(parameter.arg, OPAQUE if annotation is None else Assigned(annotation=annotation))
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                self._bind(variadic.arg, OPAQUE)

    def _bind(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)


def _methods(node: ast.ClassDef) -> Iterator[FunctionNode]:
    """The methods of a class and of the classes inside it."""
    for child in node.body:
        if isinstance(child, FunctionNode):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from _methods(child)


def _outside_parts(node: ast.AST) -> list[ast.AST]:
    """The parts of a definition that run in the outer scope: decorators, defaults, base classes."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    assert isinstance(node, FunctionNode)
    defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
    return [*node.decorator_list, *defaults]


def tree_nodes(root: ast.AST, stop: set[ast.AST]) -> Iterator[ast.AST]:
    """A node and its descendants, without the nodes in `stop` and without the bodies of functions and classes."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node in stop:
            continue
        yield node
        if not isinstance(node, _NESTED):
            stack.extend(ast.iter_child_nodes(node))
