"""Activities and workflows as values: the decorators, and the calls that they return.

Calling a decorated function only makes a `Call`. What happens next depends on where the call goes: a body may yield
it, a combinator may take it as a branch, an engine may start it as a workflow.

The definition also knows how to encode arguments and results (`coder`). Encoding follows the annotations of the
function, so a change of annotations changes what stored values may look like.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, overload

from durable.errors import DuplicateActivity, DuplicateWorkflow, InvalidValue, WrongType
from durable.model.clock import from_duration
from durable.model.codec import Codec, Coder, FunctionCoder
from durable.model.ids import check_text
from durable.model.records import EntryKind
from durable.model.registry import Registry
from durable.model.retry import Retry
from durable.runner.ambient import Ambient
from durable.runner.fibers import WaitCondition
from durable.runner.forgotten import report
from durable.runner.ops import STEPPING, Leaf, Op, T_co, UseYieldFrom
from durable.runner.twice import note_definition

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# What a workflow written as a generator returns: `def checkout(order: Order) -> Durable[Receipt]`.
Durable: TypeAlias = Generator[Op[Any], UseYieldFrom, R]


class Call(Leaf[T_co]):
    """A call of an activity or a workflow that has not run yet."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class ActivityCall(Call[T_co]):
    """A call of an activity. Its arguments are never stored: a rebuilt body supplies them again."""

    kind = EntryKind.ACTIVITY

    def __init__(self, definition: ActivityDef[Any, T_co], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.definition = definition
        self.name = definition.name

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Copy the arguments, so that neither the body nor a failed attempt can change those of the next attempt."""
        coder = self.definition.coder(session.codec)
        wait.args, wait.kwargs = coder.copy_arguments(self.args, self.kwargs)

    def coder(self, codec: Codec) -> Coder:
        """The coder of the result. Raises `CodecError`."""
        return self.definition.coder(codec).result

    def __str__(self) -> str:
        return f"{self.name}(...)"


class WorkflowCall(Call[T_co]):
    """A call of a workflow: a child if a body yields it, a top-level workflow if an engine starts it."""

    kind = EntryKind.CHILD

    def __init__(
        self,
        definition: WorkflowDef[Any, T_co],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        child_id: str | None = None,
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.definition = definition
        self.name = definition.name
        self.child_id = child_id

    def with_id(self, id: str) -> WorkflowCall[T_co]:
        """The same call. As a child it gets this id instead of one derived from its parent's."""
        self._used = True
        return WorkflowCall(self.definition, self.args, self.kwargs, check_text("child workflow id", id))

    def prepare(self, wait: WaitCondition, session: Ambient) -> None:
        """Pack the arguments of the child. Raises `TypeError`, `CodecError`."""
        wait.input = self.definition.pack_input(self.args, self.kwargs, session.codec)

    def coder(self, codec: Codec) -> Coder:
        """The coder of the child's result. Raises `CodecError`."""
        return self.definition.coder(codec).result

    def __str__(self) -> str:
        return f"{self.name}(...)"


class ContinueRequested(BaseException):
    """Raised by a body to end this round and continue as another call under the same id.

    It is not an `Exception`, so `except Exception` in a body does not catch it.
    """

    # Whether the body was already reported for misusing it.
    is_used = False

    def __init__(self, call: WorkflowCall[Any]) -> None:
        super().__init__(call)
        self.call = call

    def __str__(self) -> str:
        return f"{self.call.name}.continue_as(...)"

    def __del__(self) -> None:
        # A traceback means that it was raised, as it should be.
        if self.__traceback__ is None and not self.is_used:
            report(STEPPING.get(), None, self, "but never raised: did you forget 'raise'?")


class Definition:
    """The common part of activities and workflows: a function, and how its arguments and result are encoded."""

    fn: Callable[..., Any]
    name: str
    # How messages refer to it, such as "activity charge".
    label: str
    _coder: tuple[Codec, FunctionCoder] | None = None

    def coder(self, codec: Codec) -> FunctionCoder:
        """The coder of the arguments and the result, cached for the last codec. Raises `CodecError`."""
        cached = self._coder
        if cached is None or cached[0] is not codec:
            cached = self._coder = (codec, codec.function(self.fn, self.label))
        return cached[1]


class ActivityDef(Definition, Generic[P, R_co]):
    """A function whose result is recorded, so that a replay reads it instead of running the function again.

    An attempt may run more than once (a retry, a crash before its commit); only one result is ever recorded.
    """

    def __init__(self, fn: Callable[P, Any], name: str, retry: Retry, timeout: timedelta | float | None) -> None:
        self.fn = fn
        self.name = name
        self.retry = retry
        self.timeout_us = None if timeout is None else from_duration(f"activity {name}: timeout", timeout)
        if self.timeout_us == 0:
            raise InvalidValue(f"activity {name}: timeout", "must be longer than zero")
        self.is_async = inspect.iscoroutinefunction(fn)
        self.label = f"activity {name}"
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        return ActivityCall(self, args, kwargs)

    def options(
        self, *, name: str | None = None, retry: Retry | None = None, timeout: timedelta | float | None = None
    ) -> ActivityDef[P, R_co]:
        """The same activity with other settings. A setting that is omitted keeps its value."""
        old_timeout = None if self.timeout_us is None else timedelta(microseconds=self.timeout_us)
        new_name = self.name if name is None else check_text("activity name", name)
        return ActivityDef(self.fn, new_name, retry or self.retry, old_timeout if timeout is None else timeout)

    def __repr__(self) -> str:
        return f"<activity {self.name}>"


class WorkflowDef(Definition, Generic[P, R_co]):
    """A generator function or coroutine function that durable drives. Made by `@workflow`.

    Stored workflows refer to it by name and version. Code for a version must stay registered while runs of it exist.
    """

    def __init__(self, fn: Callable[P, Any], name: str, version: int) -> None:
        self.fn = fn
        self.name = name
        self.version = version
        self.origin = f"{fn.__module__}.{fn.__qualname__}"
        self.label = f"workflow {name}"
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowCall[R_co]:
        return WorkflowCall(self, args, kwargs)

    def continue_as(self, *args: P.args, **kwargs: P.kwargs) -> ContinueRequested:
        """Write `raise wf.continue_as(...)` in a body to continue under the same id with an empty history."""
        call: WorkflowCall[R_co] = WorkflowCall(self, args, kwargs)
        call._used = True
        return ContinueRequested(call)

    def pack_input(self, args: tuple[Any, ...], kwargs: dict[str, Any], codec: Codec) -> str:
        """The arguments of a call as JSON. Raises `TypeError` if they do not fit the function, `CodecError`."""
        coder = self.coder(codec)
        coder.check(args, kwargs)
        return coder.pack_arguments(args, kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


# Every module-level workflow that has been imported. Nested ones are not in it: an engine must be given those.
REGISTRY: Registry[WorkflowDef[Any, Any]] = Registry()


class _ActivityDecorator:
    def __init__(self, name: str | None, retry: Retry, timeout: timedelta | float | None) -> None:
        self._name = name
        self._retry = retry
        self._timeout = timeout

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> ActivityDef[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> ActivityDef[P, R]: ...
    def __call__(self, fn: Callable[P, Any], /) -> ActivityDef[P, Any]:
        definition: ActivityDef[P, Any] = ActivityDef(fn, _activity_name(fn, self._name), self._retry, self._timeout)
        if (places := note_definition(fn, definition.label)) is not None:
            raise DuplicateActivity(definition.name, *places)
        return definition


@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> ActivityDef[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> ActivityDef[P, R]: ...
@overload
def activity(
    *, name: str | None = None, retry: Retry = ..., timeout: timedelta | float | None = None
) -> _ActivityDecorator: ...
def activity(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry: Retry = Retry(),  # noqa: B008 - a frozen value
    timeout: timedelta | float | None = None,
) -> Any:
    """Make a function an activity: `async def` runs on the service's event loop, `def` in a worker thread."""
    decorator = _ActivityDecorator(name, retry, timeout)
    return decorator if fn is None else decorator(fn)


def _activity_name(fn: Callable[..., Any], name: str | None) -> str:
    if not callable(fn):
        raise WrongType("activity", f"must be a function, not {type(fn).__name__}")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        subject = f"activity {getattr(fn, '__name__', fn)!s}"
        raise WrongType(subject, "is a generator; an activity is a plain def or async def function")
    chosen = name if name is not None else getattr(fn, "__qualname__", type(fn).__name__).rpartition("<locals>.")[2]
    if chosen == "<lambda>":
        raise InvalidValue("activity", "a lambda has no stable name; give name=")
    return check_text("activity name", chosen)


@overload
def call(
    fn: Callable[..., Coroutine[Any, Any, R]],
    *args: Any,
    name: str | None = None,
    retry: Retry = ...,
    timeout: timedelta | float | None = None,
    **kwargs: Any,
) -> Call[R]: ...
@overload
def call(
    fn: Callable[..., R],
    *args: Any,
    name: str | None = None,
    retry: Retry = ...,
    timeout: timedelta | float | None = None,
    **kwargs: Any,
) -> Call[R]: ...
def call(
    fn: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    retry: Retry = Retry(),  # noqa: B008 - a frozen value
    timeout: timedelta | float | None = None,
    **kwargs: Any,
) -> Call[Any]:
    """Call any plain function as an activity, without a decorator. The history refers to it by its name."""
    definition: ActivityDef[Any, Any] = ActivityDef(fn, _activity_name(fn, name), retry, timeout)
    return ActivityCall(definition, args, kwargs)


class _WorkflowDecorator:
    def __init__(self, name: str | None, version: int) -> None:
        self._name = name
        self._version = version

    @overload
    def __call__(self, fn: Callable[P, Generator[Op[Any], UseYieldFrom, R]], /) -> WorkflowDef[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowDef[P, R]: ...
    def __call__(self, fn: Callable[P, Any], /) -> WorkflowDef[P, Any]:
        return _define_workflow(fn, self._name, self._version)


@overload
def workflow(fn: Callable[P, Generator[Op[Any], UseYieldFrom, R]], /) -> WorkflowDef[P, R]: ...
@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowDef[P, R]: ...
@overload
def workflow(*, name: str | None = None, version: int = 1) -> _WorkflowDecorator: ...
def workflow(fn: Callable[..., Any] | None = None, /, *, name: str | None = None, version: int = 1) -> Any:
    """Make a generator function, or an `async def` function, a workflow."""
    decorator = _WorkflowDecorator(name, version)
    return decorator if fn is None else decorator(fn)


def _define_workflow(fn: Callable[P, Any], name: str | None, version: int) -> WorkflowDef[P, Any]:
    if not (inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn)):
        raise WrongType(
            f"workflow {getattr(fn, '__name__', fn)!s}",
            "must be a generator function (with 'yield from') or an 'async def' function (with 'await')",
        )
    if not hasattr(fn, "__qualname__"):
        raise WrongType(f"workflow {fn!s}", "is callable but has no __qualname__: wrap it in a function")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidValue(f"workflow {fn.__name__}", f"version must be an int of at least 1, not {version!r}")
    is_nested = "<locals>" in fn.__qualname__
    if name is None and (is_nested or fn.__name__ == "<lambda>"):
        raise InvalidValue(f"workflow {fn.__qualname__}", "is nested, so it has no stable name; give name=")
    definition: WorkflowDef[P, Any] = WorkflowDef(
        fn, check_text("workflow name", fn.__qualname__ if name is None else name), version
    )
    if not is_nested:
        if (places := note_definition(fn, repr(definition))) is not None:
            raise DuplicateWorkflow(definition.name, version, *places)
        REGISTRY.add(definition)
    return definition
