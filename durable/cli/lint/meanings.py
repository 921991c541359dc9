"""The meaning of an expression, as far as reading can tell: an external name, a function, or an instance of a class.

Follows imports from file to file among the checked files, and into the files beside them, which are parsed and never
imported. If it is not sure, the meaning is None, and no check reports anything about None.

There are three meanings. `External("datetime.datetime.now")` is a name of a module that is not part of the project.
`Function` is a definition in the project. `Instance("durable.Op")` is a value of a class: an operation, a set, a path,
a client. `self` and parameters without annotations have no meaning.

A variable means what all of its bindings mean. After `x = {1, "a"}` alone, `x` is a set; with `x = load()` in another
branch as well, it is unknown. The result is cached per scope and name. None marks a name whose meaning is being
computed, which stops the recursion through variables that depend on each other.
"""

from __future__ import annotations

import ast
import builtins
import os
from pathlib import Path
from typing import TypeAlias

import attrs

from durable.cli.lint import vocabulary
from durable.cli.lint.foreign import STDLIB
from durable.cli.lint.neighbours import Neighbours
from durable.cli.lint.scopes import Assigned, Binding, Function, Imported, Scope

SET = "builtins.set"
_SETS = ("builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet", "typing.AbstractSet",
         "typing.MutableSet", "collections.abc.Set", "collections.abc.MutableSet")  # fmt: skip
_SET_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
ROLES = ("durable.workflow", "durable.activity")
# Decorators that leave the behaviour of a function as it is written.
_HARMLESS_DECORATORS = frozenset(
    "builtins.staticmethod builtins.classmethod functools.cache functools.lru_cache functools.wraps "
    "contextlib.contextmanager contextlib.asynccontextmanager typing.final typing.override typing.no_type_check "
    "typing_extensions.final typing_extensions.override".split()
)
# Longer chains of assignments and imports are not followed.
_DEPTH_MAX = 20
# How many folders above a package may be part of the name in an import.
_OUTER_MAX = 5


@attrs.frozen
class External:
    """A name of another module, by its full dotted name. Names of durable have their public form."""

    dotted: str


@attrs.frozen
class Instance:
    """An instance of a class, by the dotted name of the class."""

    kind: str


Meaning: TypeAlias = External | Instance | Function


@attrs.frozen(eq=False)
class Module:
    """One file, parsed."""

    path: Path
    scope: Scope


class Project:
    """The files that are checked together, and the meanings of their names."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        # By every dotted name under which a file might be imported; None if two files have the same name.
        self._by_name: dict[str, Module | None] = {}
        self._by_path: dict[str, Module] = {}
        self._neighbours = Neighbours()
        # Names of modules without a file.
        self._absent: set[str] = set()
        # The meanings of variables, cached.
        self._variables: dict[tuple[Scope, str], Meaning | None] = {}

    def add(self, path: Path, tree: ast.Module) -> Module:
        """Add a file that is to be checked."""
        parts, depth = _parts(path)
        is_package = path.stem == "__init__"
        module = Module(path, Scope(tree, None, ".".join(parts if is_package else parts[:-1])))
        self.modules.append(module)
        self._by_path[os.path.realpath(path)] = module
        names = Path(os.path.realpath(path)).with_suffix("").parts
        whole = names[:-1] if is_package else names
        self._neighbours.add_roots(Path(*whole[:-length]) for length in range(depth, len(parts) + 1))
        for length in range(depth, len(parts) + 1):
            name = ".".join(parts[-length:])
            self._by_name[name] = None if name in self._by_name else module
        return module

    def lookup(self, dotted: str, depth: int = 0) -> Meaning | None:
        """The meaning of a dotted name: a definition in one of these files, or an external name."""
        dotted = vocabulary.public(dotted)
        parts = dotted.removeprefix(".").split(".")
        if not dotted.startswith(".") and (parts[0] in STDLIB or parts[0] == "durable"):
            return External(dotted)
        if self._module(parts) is not None:
            return External(dotted)
        for length in range(len(parts) - 1, 0, -1):
            module = self._module(parts[:length])
            if module is not None:
                return self._inside(module, parts[length:], depth)
        return External(dotted)

    def _module(self, parts: list[str]) -> Module | None:
        """The file of a module, whether it is checked or beside the checked files."""
        name = ".".join(parts)
        if name not in self._by_name and name not in self._absent:
            neighbour = self._neighbours.find(parts)
            if neighbour is None:
                self._absent.add(name)
                return None
            path, tree = neighbour
            checked = self._by_path.get(os.path.realpath(path))
            package = ".".join(parts if path.stem == "__init__" else parts[:-1])
            self._by_name[name] = checked or Module(path, Scope(tree, None, package))
        return self._by_name.get(name)

    def _starred(self, scope: Scope, name: str, depth: int) -> Meaning | None:
        """The meaning of a name that comes from `from module import *`."""
        for source in reversed(scope.stars if depth <= _DEPTH_MAX else ()):
            if vocabulary.public(source) == "durable":
                if vocabulary.is_public(name):
                    return External(f"durable.{name}")
                continue
            module = None if source in STDLIB else self._module(source.removeprefix(".").split("."))
            if module is not None and not name.startswith("_"):
                is_bound = name in module.scope.bindings
                meaning = (self._variable if is_bound else self._starred)(module.scope, name, depth + 1)
                if is_bound or meaning is not None:
                    return meaning
        return None

    def _inside(self, module: Module, path: list[str], depth: int) -> Meaning | None:
        """The meaning of a path of names that starts in a module of the project."""
        meaning = self._variable(module.scope, path[0], depth + 1)
        for name in path[1:]:
            meaning = None if meaning is None else self._attribute(meaning, name, depth + 1)
        return meaning

    # --- expressions ----------------------------------------------------------------------------------------------

    def meaning(self, node: ast.AST | None, scope: Scope, depth: int = 0) -> Meaning | None:
        """The meaning of an expression in a scope; None if it is not certain."""
        if depth > _DEPTH_MAX:
            return None
        match node:
            case ast.Name(id=name):
                return self._variable(scope, name, depth + 1)
            case ast.Attribute(value=value, attr=name):
                owner = self.meaning(value, scope, depth + 1)
                return None if owner is None else self._attribute(owner, name, depth + 1)
            case ast.Subscript(value=value):
                owner = self.meaning(value, scope, depth + 1)
                # A subscripted class, as in Event[Decision], means the class.
                return owner if isinstance(owner, External) and _is_class(owner.dotted) else None
            case ast.Call():
                return self._called(node, scope, depth + 1)
            case ast.Set(elts=elements):
                return None if all(map(_is_number, elements)) else Instance(SET)
            case ast.SetComp():
                return Instance(SET)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._combined(left, operator, right, (scope, depth + 1))
            case ast.NamedExpr(value=value):
                return self.meaning(value, scope, depth + 1)
            case ast.IfExp(body=body, orelse=alternative):
                return _common([self.meaning(arm, scope, depth + 1) for arm in (body, alternative)])
            case _:
                return None

    def dotted(self, node: ast.AST | None, scope: Scope) -> str:
        """The full name that an expression means; empty if it does not mean an external name."""
        meaning = self.meaning(node, scope)
        return meaning.dotted if isinstance(meaning, External) else ""

    def is_op(self, node: ast.AST | None, scope: Scope) -> bool:
        """Whether an expression is a durable operation."""
        return self.meaning(node, scope) == Instance(vocabulary.OP)

    def role(self, function: Function) -> str:
        """`durable.workflow` or `durable.activity` for a function with that decorator, empty for a plain function.

        With a decorator of another library it is "unknown": reading cannot tell what a call of it runs.
        """
        role = ""
        for decorator in function.node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            outside = function.scope.parent
            dotted = "" if outside is None else self.dotted(called, outside)
            if dotted in ROLES:
                return dotted
            if dotted not in _HARMLESS_DECORATORS:
                role = "unknown"
        return role

    # --- parts ----------------------------------------------------------------------------------------------------

    def _variable(self, scope: Scope, name: str, depth: int) -> Meaning | None:
        """The meaning of a name: that of all its bindings if they agree, otherwise None."""
        bound = scope.find(name)
        if bound is None:
            starred = self._starred(scope.module, name, depth + 1)
            return starred or (External(f"builtins.{name}") if hasattr(builtins, name) else None)
        owner, bindings = bound
        if (owner, name) not in self._variables:
            # None while it is being computed: variables may depend on each other and on themselves.
            self._variables[owner, name] = None
            self._variables[owner, name] = _common([self._binding(owner, binding, depth) for binding in bindings])
        return self._variables[owner, name]

    def _binding(self, scope: Scope, binding: Binding, depth: int) -> Meaning | None:
        """The meaning of one binding. An annotation wins over the value, if it has a meaning."""
        if depth > _DEPTH_MAX:
            return None
        match binding:
            case Imported(dotted):
                return self.lookup(dotted, depth)
            case Function():
                return binding
            case Assigned(value, annotation) if annotation is not None:
                return self._annotated(annotation, scope, depth + 1) or self.meaning(value, scope, depth + 1)
            case Assigned(value):
                return self.meaning(value, scope, depth + 1)
            case _:
                return None

    def _attribute(self, owner: Meaning, name: str, depth: int) -> Meaning | None:
        """The meaning of an attribute. `.fn` of an activity is the function itself, which only runs as a mistake."""
        if isinstance(owner, Function):
            role = self.role(owner)
            if role == "durable.activity":
                return owner if name == "fn" else External(f"{vocabulary.ACTIVITY}.{name}")
            return External(f"{vocabulary.WORKFLOW}.{name}") if role == "durable.workflow" else None
        if isinstance(owner, Instance):
            return External(f"{owner.kind}.{name}")
        return self.lookup(f"{owner.dotted}.{name}", depth)

    def _called(self, node: ast.Call, scope: Scope, depth: int) -> Meaning | None:
        """The meaning of the result of a call: an operation, a definition, a set, or an instance of a class."""
        function = self.meaning(node.func, scope, depth)
        if isinstance(function, Instance):
            # Calling `activity.options(...)` or `activity(fn)` makes an operation.
            return Instance(vocabulary.OP) if function.kind in (vocabulary.ACTIVITY, vocabulary.WORKFLOW) else None
        if isinstance(function, Function):
            is_bypassed = isinstance(node.func, ast.Attribute) and node.func.attr == "fn"
            return Instance(vocabulary.OP) if self.role(function) in ROLES and not is_bypassed else None
        if function is None:
            return None
        dotted = function.dotted
        if dotted in ROLES:
            made = vocabulary.WORKFLOW if dotted == "durable.workflow" else vocabulary.ACTIVITY
            # With a function it returns the definition. Without one it returns the decorator.
            return Instance(made) if node.args else External(dotted)
        if dotted.startswith("durable."):
            kind = vocabulary.result_of(dotted)
            return None if kind is None else Instance(kind)
        owner, _, name = dotted.rpartition(".")
        if dotted in _SETS or (owner == SET and name in _SET_METHODS):
            return Instance(SET)
        return Instance(dotted) if _is_class(dotted) else None

    def _combined(
        self, left: ast.expr, operator: ast.operator, right: ast.expr, at: tuple[Scope, int]
    ) -> Meaning | None:
        """The meaning of a binary expression: a set for operators of sets, a path for `/` with a path."""
        sides = [self.meaning(left, *at), self.meaning(right, *at)]
        if isinstance(operator, _SET_OPERATORS) and (Instance(SET) in sides or _is_view(left) or _is_view(right)):
            return Instance(SET)
        path = Instance("pathlib.Path")
        return path if isinstance(operator, ast.Div) and path in sides else None

    def _annotated(self, node: ast.expr, scope: Scope, depth: int) -> Meaning | None:
        """The meaning of a value with this annotation. Quoted annotations are parsed; `X | None` counts as `X`."""
        match node:
            case ast.Constant(value=str() as text):
                try:
                    parsed = ast.parse(text, mode="eval").body
                except (SyntaxError, ValueError):
                    return None
                return self._annotated(parsed, scope, depth + 1) if depth <= _DEPTH_MAX else None
            case ast.BinOp(left=optional, op=ast.BitOr(), right=ast.Constant(value=None)):
                return self._annotated(optional, scope, depth + 1)
            case ast.Subscript(value=value, slice=inner):
                outer = self._annotated(value, scope, depth)
                # A set of numbers has the same order in every process.
                return None if outer == Instance(SET) and _is_number_type(inner) else outer
            case ast.Name() | ast.Attribute():
                meaning = self.meaning(node, scope, depth)
                if not isinstance(meaning, External):
                    return None
                if meaning.dotted in _SETS:
                    return Instance(SET)
                if meaning.dotted.startswith("durable."):
                    kind = vocabulary.result_of(meaning.dotted)
                    return Instance(kind or meaning.dotted)
                return Instance(meaning.dotted) if _is_class(meaning.dotted) else None
            case _:
                return None


def _common(meanings: list[Meaning | None]) -> Meaning | None:
    """The meaning that all bindings share; None if they differ or there are none."""
    first = meanings[0] if meanings else None
    return first if all(meaning == first for meaning in meanings) else None


def _is_class(dotted: str) -> bool:
    """Whether the last part of a name looks like a class: it starts with an upper-case letter."""
    return dotted.rpartition(".")[2][:1].isupper()


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_number_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("int", "float", "bool")


def _is_view(node: ast.expr) -> bool:
    """Whether this is `mapping.keys()` or `.items()`, which give a set with an operator of sets."""
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "items"), args=[], keywords=[]):
            return True
        case _:
            return False


def _parts(path: Path) -> tuple[list[str], int]:
    """The path of a file as names, and how many of the last names its packages need."""
    real = Path(os.path.realpath(path))
    folder = real.parent
    depth = 0 if real.stem == "__init__" else 1
    while (folder / "__init__.py").exists() and folder.parent != folder:
        depth += 1
        folder = folder.parent
    names = [*real.parts[1:-1], *([] if real.stem == "__init__" else [real.stem])]
    depth = max(depth, 1)
    return names[-depth - _OUTER_MAX :], depth


def is_generator(function: Function) -> bool:
    """Whether a function is a generator."""
    if isinstance(function.node, ast.AsyncFunctionDef):
        return False
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in function.scope.nodes)
