"""A way to ask an engine: what groups and handles need, wherever the engine is.

`Core` is the way of an engine to its own coordinator. `remote.client_way.ClientWay` is that of a client: over the
socket of the engine, or without an engine from the store's file. `standby.Standby` is the way of an engine that shares
its store: one or the other, as the store passes from process to process. Both guards that stand in front of public
methods are here too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from durable.engine.operations import AwaitChange, AwaitEnd, Operation, SendEvent
from durable.engine.operations.views import Description
from durable.errors import OperationMisused
from durable.model.clock import Clock
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from durable.runner.ops import STEPPING, caller

P = ParamSpec("P")
A = TypeVar("A")
S = TypeVar("S")


class Way(Protocol):
    """How operations reach an engine, and what is needed to make them and to read the replies."""

    codec: Codec
    # The code that decodes results. Empty for a client.
    registry: Registry[WorkflowDef[Any, Any]]
    clock: Clock
    new_id: Callable[[], str]

    def code(self, name: str, version: int) -> WorkflowDef[Any, Any] | None:
        """The code that checks the arguments of a call by name; None if the engine does that in another process.

        Raises `UnknownWorkflow` in the process of the engine.
        """
        ...

    def settled(self, operation: SendEvent) -> SendEvent:
        """An event by name, with the settings of its `Event`; as it is if the engine does that in another process.

        Raises `CodecError` in the process of the engine.
        """
        ...

    def ask(self, operation: Operation[A]) -> Coroutine[Any, Any, A]:
        """Have an operation decided, and return its reply. Raises what the decision raises."""
        ...

    def ask_end(self, operation: AwaitEnd | AwaitChange) -> Coroutine[Any, Any, Any]:
        """Like `ask`, for the two operations whose reply may take months."""
        ...

    def describe(self, id: str) -> Coroutine[Any, Any, Description]:
        """Like `ask` with `DescribeWorkflow`, and with what only the process of the engine knows."""
        ...


def service_call(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, A]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, A]]:
    """Guard a method of the API: inside a workflow body it raises `OperationMisused`, which says what to write."""

    @functools.wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, A]:
        if STEPPING.get() is not None:
            refuse_in_body(f"{type(self).__name__}.{method.__name__}")
        return method(self, *args, **kwargs)

    return guarded


def refuse_in_body(name: str) -> None:
    """Raises `OperationMisused` if a workflow body is running. `name` is the method that only a service may call."""
    if STEPPING.get() is not None:
        raise OperationMisused(
            f"{name}() was called inside a workflow body, which must not talk to the engine: "
            f"yield a workflow call for a child, or do it in an activity ({caller()})"
        )
