"""Which functions run inside workflows: those that are decorated, and what they call in the files that are checked.

A helper that is yielded from, awaited or given to a combinator is a body like any other. A plain function that a body
calls must be deterministic too, but it may yield what it likes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import attrs

from durable.cli.lint import vocabulary
from durable.cli.lint.meanings import External, Instance, Meaning, Module, Project, is_generator
from durable.cli.lint.scopes import Function, Scope

# What a body hands a function to, to be called there and then.
_CALLING = ("builtins.map", "builtins.filter", "builtins.sorted", "builtins.min", "builtins.max", "functools.reduce")


@attrs.define(eq=False)
class Body:
    """A function that runs inside a workflow. `workflow` is the name of one that it belongs to."""

    function: Function
    module: Module
    workflow: str
    is_durable: bool

    @property
    def scope(self) -> Scope:
        """The scope inside the function."""
        return self.function.scope

    @property
    def label(self) -> str:
        """The function in words."""
        if self.function.name == self.workflow:
            return f"workflow {self.workflow}"
        return f"{self.function.name}, which runs in workflow {self.workflow}"


class Bodies:
    """Every body of a project, found from its workflows on."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._modules = {module.scope: module for module in project.modules}
        self._found: dict[Function, Body] = {}
        for module in project.modules:
            for function in module.scope.inner_functions():
                if project.role(function) == "durable.workflow":
                    self._enter(function, function.name, is_durable=True)
            for scope in _scopes(module.scope):
                self._find_wrapped(scope)

    def __iter__(self) -> Iterator[Body]:
        return iter(self._found.values())

    def _find_wrapped(self, scope: Scope) -> None:
        """`workflow(fn)` and `workflow(name="order")(fn)`: a workflow without the decorator's syntax."""
        for node in scope.nodes:
            if isinstance(node, ast.Call) and node.args:
                made = self._project.meaning(node, scope)
                given = self._project.meaning(node.args[0], scope)
                called = self._project.meaning(node.func, scope)
                is_made = made == Instance(vocabulary.WORKFLOW) and called == External("durable.workflow")
                if is_made and isinstance(given, Function):
                    self._enter(given, given.name, is_durable=True)

    def _enter(self, function: Function, workflow: str, *, is_durable: bool) -> None:
        """Take a function in, and all that it calls."""
        todo = [(function, is_durable)]
        while todo:
            function, is_durable = todo.pop()
            known = self._found.get(function)
            if known is not None:
                known.is_durable = known.is_durable or is_durable
                continue
            module = self._modules.get(function.scope.module)
            if module is None:
                # A file beside those that are checked.
                continue
            body = Body(function, module, workflow, is_durable)
            self._found[function] = body
            todo.extend(self._called(body))

    def _called(self, body: Body) -> Iterator[tuple[Function, bool]]:
        """The functions that a body runs, and whether each is a body of the workflow itself."""
        for node in body_nodes(self._project, body.scope):
            if not isinstance(node, ast.Call):
                continue
            meaning = self._project.meaning(node.func, body.scope)
            if isinstance(meaning, Function) and not self._project.role(meaning):
                yield meaning, self._is_run(node, meaning, body.scope)
            yield from self._handed_over(node, meaning, body.scope)

    def _is_run(self, call: ast.Call, function: Function, scope: Scope) -> bool:
        if isinstance(function.node, ast.AsyncFunctionDef):
            return True
        if not is_generator(function):
            return False
        parent = scope.parents[call]
        if isinstance(parent, ast.YieldFrom | ast.Await):
            return True
        # Given to a combinator, perhaps in a list or with a star.
        while isinstance(parent, ast.keyword | ast.Starred | ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp):
            parent = scope.parents[parent]
        return self._project.is_op(parent, scope)

    def _handed_over(self, call: ast.Call, meaning: Meaning | None, scope: Scope) -> Iterator[tuple[Function, bool]]:
        """Functions that are not called here but given to somebody who calls them: `fan_out(pay, orders)`."""
        dotted = meaning.dotted if isinstance(meaning, External) else ""
        is_ours = dotted.startswith("durable.") and dotted not in vocabulary.MAKING
        if not is_ours and dotted not in _CALLING:
            return
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            given = self._project.meaning(argument, scope)
            if not isinstance(given, Function) or self._project.role(given) or isinstance(argument, ast.Call):
                continue
            # A plain function that durable is given runs as an activity.
            if not is_ours or is_helper(given):
                yield given, is_ours


def body_nodes(project: Project, scope: Scope) -> Iterator[ast.AST]:
    """Every node of a body, without what `call(...)` is given to run: that is an activity."""
    stop: set[ast.AST] = set()
    for node in scope.nodes:
        if scope.parents.get(node) in stop:
            stop.add(node)
            continue
        yield node
        if isinstance(node, ast.Call) and project.dotted(node.func, scope) == vocabulary.CALL:
            stop.update(one for one in node.args if isinstance(one, ast.Lambda))


def is_helper(function: Function) -> bool:
    """Whether a function waits for operations: a generator that yields from something, or a coroutine that awaits."""
    is_coroutine = isinstance(function.node, ast.AsyncFunctionDef)
    return any(isinstance(one, ast.Await if is_coroutine else ast.YieldFrom) for one in function.scope.nodes)


def _scopes(module: Scope) -> Iterator[Scope]:
    yield module
    yield from (function.scope for function in module.inner_functions())
