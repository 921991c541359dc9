"""Workflows by name, for services that do not have their code: `WorkflowRef`, and the arguments of any call as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar, overload

from durable.engine.api.way import Way
from durable.errors import InvalidValue, WrongType
from durable.model.codec import Arguments, Codec, Coder
from durable.model.ids import check_text
from durable.model.registry import NEWEST
from durable.runner.definitions import WorkflowCall, WorkflowDef

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class WorkflowRef(Generic[R_co]):
    """A workflow by its name: `checkout = WorkflowRef("checkout", returns=Receipt)`.

    Use it where the code is not at hand: `client.start(checkout(order={"sku": "x"}))`, `schedules.create`, and
    `client.handle(id, checkout)`. Calls take keyword arguments, as plain JSON values; the engine that has the code
    checks them. Results are read as `returns`. Without a `version` the engine takes the newest that it has.
    """

    @overload
    def __init__(self: WorkflowRef[Any], name: str, *, version: int | None = None) -> None: ...
    @overload
    def __init__(self: WorkflowRef[R], name: str, returns: type[R], version: int | None = None) -> None: ...
    @overload
    def __init__(self: WorkflowRef[Any], name: str, returns: Any, version: int | None = None) -> None: ...
    def __init__(self, name: str, returns: Any = Any, version: int | None = None) -> None:
        self.name = check_text("workflow name", name)
        if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 1):
            raise InvalidValue(f"workflow {name}", f"version must be an int of at least 1, not {version!r}")
        self.returns = returns
        self.version = version

    def __call__(self, **arguments: Any) -> RefCall[R_co]:
        return RefCall(self, arguments)

    def result_coder(self, codec: Codec) -> Coder:
        """The coder of the result. Raises `CodecError` if `returns` cannot be stored."""
        return codec.coder(self.returns, f"workflow {self.name}: result")

    def __repr__(self) -> str:
        return f"<workflow {self.name} by name>"


class RefCall(Generic[R_co]):
    """A call of a workflow by name, to be passed to `start` or `schedules.create`. A body cannot yield it."""

    def __init__(self, ref: WorkflowRef[R_co], arguments: Mapping[str, Any]) -> None:
        self.ref = ref
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"{self.ref.name}(...) by name"


class Packed(NamedTuple):
    """A call as text. `definition` and `arguments` are None if the code is elsewhere."""

    name: str
    version: int
    input: str
    definition: WorkflowDef[Any, Any] | None
    arguments: Arguments | None


def pack(way: Way, call: WorkflowCall[Any] | RefCall[Any], method: str) -> Packed:
    """The arguments of a call as they are stored, or as the engine that has the code will check them.

    `method` is named in errors. Raises `WrongType`, `TypeError`, `CodecError`, or `UnknownWorkflow` for a call by name
    in the process of the engine.
    """
    if isinstance(call, RefCall):
        return _by_name(way, call)
    if not isinstance(call, WorkflowCall):
        raise WrongType(method, f"takes a call of a @workflow function, not {call!r}")
    call._used = True
    definition: WorkflowDef[Any, Any] = call.definition
    coder = definition.coder(way.codec)
    coder.check(call.args, call.kwargs)
    text, arguments = coder.pack_call(call.args, call.kwargs)
    return Packed(definition.name, definition.version, text, definition, arguments)


def _by_name(way: Way, call: RefCall[Any]) -> Packed:
    ref = call.ref
    version = NEWEST if ref.version is None else ref.version
    text, _ = way.codec.coder(dict[str, Any], f"workflow {ref.name}: arguments").pack(dict(call.arguments))
    definition = way.code(ref.name, version)
    if definition is None:
        return Packed(ref.name, version, text, None, None)
    # As a call of the function would be stored: defaults included, in the order of the parameters.
    coder = definition.coder(way.codec)
    args, kwargs = coder.unpack_arguments(text)
    text, arguments = coder.pack_call(args, kwargs)
    return Packed(ref.name, definition.version, text, definition, arguments)
