"""The functions that run inside workflows: the decorated ones, and those that they call in the checked files.

A helper that is yielded from, awaited or passed to a combinator is a body like any other. A plain function that a body
calls must also be deterministic, but it may yield anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import attrs

from durable.cli.lint import vocabulary
from durable.cli.lint.meanings import External, Instance, Meaning, Module, Project, is_generator
from durable.cli.lint.scopes import Function, Scope

# Built-ins that call a function that is passed to them, at once.
_CALLING = ("builtins.map", "builtins.filter", "builtins.sorted", "builtins.min", "builtins.max", "functools.reduce")


@attrs.define(eq=False)
class Body:
    """A function that runs inside a workflow.

    `workflow` is the name of the first workflow that was found to run it. `is_durable` says whether its yields are
    operations, as in a workflow or a helper.
    """

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
        """The function in words, for messages."""
        if self.function.name == self.workflow:
            return f"workflow {self.workflow}"
        return f"{self.function.name}, which runs in workflow {self.workflow}"


class Bodies:
    """Every body of a project, found by following calls from its workflows."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._modules = {module.scope: module for module in project.modules}
        self._bodies: dict[Function, Body] = {}
        for module in project.modules:
            for function in module.scope.inner_functions():
                if project.role(function) == "durable.workflow":
                    self._enter(function, function.name, is_durable=True)
            for scope in _scopes(module.scope):
                self._find_wrapped(scope)

    def __iter__(self) -> Iterator[Body]:
        return iter(self._bodies.values())

    def _find_wrapped(self, scope: Scope) -> None:
        """Enter functions made into workflows by a call: `workflow(fn)` and `workflow(name="order")(fn)`."""
        for node in scope.nodes:
            if isinstance(node, ast.Call) and node.args:
                made = self._project.meaning(node, scope)
                wrapped = self._project.meaning(node.args[0], scope)
                called = self._project.meaning(node.func, scope)
                is_made = made == Instance(vocabulary.WORKFLOW) and called == External("durable.workflow")
                if is_made and isinstance(wrapped, Function):
                    self._enter(wrapped, wrapped.name, is_durable=True)

    def _enter(self, function: Function, workflow: str, *, is_durable: bool) -> None:
        """Enter a function, and all functions that it calls."""
        todo = [(function, is_durable)]
        while todo:
            function, is_durable = todo.pop()
            entered = self._bodies.get(function)
            if entered is not None:
                entered.is_durable = entered.is_durable or is_durable
                continue
            module = self._modules.get(function.scope.module)
            if module is None:
                # The function is in a file that is not checked.
                continue
            body = Body(function, module, workflow, is_durable)
            self._bodies[function] = body
            todo.extend(self._called(body))

    def _called(self, body: Body) -> Iterator[tuple[Function, bool]]:
        """The functions that a body runs, each with whether its yields are operations of the workflow."""
        for node in body_nodes(self._project, body.scope):
            if not isinstance(node, ast.Call):
                continue
            meaning = self._project.meaning(node.func, body.scope)
            if isinstance(meaning, Function) and not self._project.role(meaning):
                yield meaning, self._is_run(node, meaning, body.scope)
            yield from self._handed_over(node, meaning, body.scope)

    def _is_run(self, call: ast.Call, function: Function, scope: Scope) -> bool:
        """Whether a call runs a helper as part of the workflow: it is yielded from, awaited or combined."""
        if isinstance(function.node, ast.AsyncFunctionDef):
            return True
        if not is_generator(function):
            return False
        parent = scope.parents[call]
        if isinstance(parent, ast.YieldFrom | ast.Await):
            return True
        if isinstance(parent, ast.Starred):
            # `gather(*branches())` iterates over the helper: what it yields are the branches.
            return False
        # Passed to a combinator, directly or in a list.
        while isinstance(parent, ast.keyword | ast.Starred | ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp):
            parent = scope.parents[parent]
        return self._project.is_op(parent, scope)

    def _handed_over(self, call: ast.Call, meaning: Meaning | None, scope: Scope) -> Iterator[tuple[Function, bool]]:
        """Functions that are not called here but passed to a function that calls them: `fan_out(pay, orders)`."""
        dotted = meaning.dotted if isinstance(meaning, External) else ""
        is_durable_call = dotted.startswith("durable.") and dotted not in vocabulary.MAKING
        if not is_durable_call and dotted not in _CALLING:
            return
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            function = self._project.meaning(argument, scope)
            if not isinstance(function, Function) or self._project.role(function) or isinstance(argument, ast.Call):
                continue
            # A plain function that is passed to durable runs as an activity.
            if not is_durable_call or is_helper(function):
                yield function, is_durable_call


def body_nodes(project: Project, scope: Scope) -> Iterator[ast.AST]:
    """Every node of a body, without the lambdas passed to `call(...)`, which run as activities."""
    stop: set[ast.AST] = set()
    for node in scope.nodes:
        if scope.parents.get(node) in stop:
            stop.add(node)
            continue
        yield node
        if isinstance(node, ast.Call) and project.dotted(node.func, scope) == vocabulary.CALL:
            stop.update(argument for argument in node.args if isinstance(argument, ast.Lambda))


def is_helper(function: Function) -> bool:
    """Whether a function waits for operations: a generator with `yield from`, or a coroutine with `await`."""
    is_coroutine = isinstance(function.node, ast.AsyncFunctionDef)
    return any(isinstance(node, ast.Await if is_coroutine else ast.YieldFrom) for node in function.scope.nodes)


def _scopes(module: Scope) -> Iterator[Scope]:
    """The scope of a module, and those of all functions in it."""
    yield module
    yield from (function.scope for function in module.inner_functions())
