"""The sync façade mirrors the async one: the same public methods with the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from durable import (
    SyncWorkflowClient,
    SyncWorkflowEngine,
    SyncWorkflowHandle,
    WorkflowClient,
    WorkflowEngine,
    WorkflowHandle,
)
from durable.engine.api.dead_letters import DeadLetters
from durable.engine.api.events import Events
from durable.engine.api.pauses import Pauses
from durable.engine.api.runs import Runs
from durable.engine.api.schedules import Schedules
from durable.engine.api.sync_groups import (
    Blocking,
    Line,
    SyncDeadLetters,
    SyncEvents,
    SyncPauses,
    SyncRuns,
    SyncSchedules,
    blocking,
)
from durable.model.clock import SECOND

PAIRS: dict[type, type[Blocking[Any]]] = {
    WorkflowClient: SyncWorkflowClient,
    WorkflowEngine: SyncWorkflowEngine,
    WorkflowHandle: SyncWorkflowHandle,
    Runs: SyncRuns,
    Pauses: SyncPauses,
    Events: SyncEvents,
    DeadLetters: SyncDeadLetters,
    Schedules: SyncSchedules,
}


def methods(cls: type) -> dict[str, Callable[..., Any]]:
    """The public methods of a class, and its constructor."""
    return {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if name == "__init__" or not name.startswith("_")
    }


def parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """What a caller passes: names, kinds, defaults and annotations, without self."""
    return list(inspect.signature(method).parameters.values())[1:]


def differences(source: type, mirror: type) -> Iterator[str]:
    """How the sync class differs from the async one."""
    expected, actual = methods(source), methods(mirror)
    # Users create clients and engines. Groups and handles come from these.
    internal = set() if issubclass(source, WorkflowClient) else {"__init__"}
    yield from (f"{name} is in one of them only" for name in (expected.keys() ^ actual.keys()) - internal)
    for name in (expected.keys() & actual.keys()) - internal:
        if parameters(expected[name]) != parameters(actual[name]):
            yield f"{name} takes {parameters(actual[name])}, not {parameters(expected[name])}"


@pytest.mark.parametrize(("source", "mirror"), PAIRS.items(), ids=lambda cls: cls.__name__)
def test_sync_class_has_the_methods_of_the_async_one(source: type, mirror: type) -> None:
    """Neither class has extra methods, and each method takes the same parameters with the same defaults."""
    assert list(differences(source, mirror)) == []


@pytest.mark.parametrize(
    ("engine", "mirror"),
    [
        (WorkflowEngine("memory://"), SyncWorkflowEngine("memory://")),
        (WorkflowClient("some.db"), SyncWorkflowClient("some.db")),
    ],
    ids=["engine", "client"],
)
def test_sync_class_has_the_groups_of_the_async_one(engine: object, mirror: object) -> None:
    """Each group of the async engine or client is mirrored by its sync class."""
    groups = {name: type(value) for name, value in vars(engine).items() if type(value) in PAIRS}
    assert len(groups) == len(PAIRS) - 3
    assert {name: type(getattr(mirror, name)) for name in groups} == {name: PAIRS[cls] for name, cls in groups.items()}


def test_sync_methods_have_the_docstrings_of_the_async_ones() -> None:
    """`help()` shows the same text for a sync method as for the async one."""
    for source, mirror in PAIRS.items():
        for name, method in methods(source).items():
            if inspect.iscoroutinefunction(inspect.unwrap(method)):
                assert inspect.getdoc(methods(mirror)[name]) == inspect.getdoc(method) is not None


def test_a_difference_is_reported() -> None:
    """A missing method and a different default are reported by name."""

    class Source:
        async def stop(self, after: float = 1.0) -> None: ...
        async def start(self) -> None: ...

    class Mirror(Blocking[Source]):
        def stop(self, after: float = SECOND) -> None: ...

    assert [line.split()[0] for line in differences(Source, Mirror)] == ["start", "stop"]


def test_mirrored_method_passes_all_arguments() -> None:
    """Positional and named arguments arrive, even under the names that the wrapper uses."""

    class Here(Line):
        def wait(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            """Run the coroutine here: it does not wait for anything."""
            try:
                method(*args, **kwargs).send(None)
            except StopIteration as ended:
                return ended.value
            raise AssertionError("the coroutine waits")

    class Source:
        async def echo(self, first: int, /, *more: int, **named: int) -> tuple[object, ...]:
            return (self, first, more, named)

    class Mirror(Blocking[Source]):
        echo = blocking(Source.echo)

    source = Source()
    assert Mirror(Here(), source).echo(1, 2, self=3, method=4) == (
        source,
        1,
        (2,),
        {"self": 3, "method": 4},
    )
