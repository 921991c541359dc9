"""The way in: an operation that arrived as a form becomes one like any other.

The façade checks what callers pass before it builds an operation. A sender on a wire may not have checked, so the same
limits are checked here. Then the registry gives the code: the arguments are decoded by the types of the function and
encoded again as they are stored, defaults included. Without that, the same call made here and there would have two
different inputs, and the second would raise `WorkflowAlreadyExists`.

This runs outside the coordinator's thread, as the façade does: decoding arguments runs code of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import attrs

from durable.engine.decide.named import sent_as
from durable.engine.operations import CreateSchedule, Operation, SendEvent, StartWorkflow
from durable.engine.operations.forms import Form, read_text
from durable.engine.operations.requests import DecideKept
from durable.engine.remote.wire import read_operation
from durable.errors import DurableError, InvalidValue
from durable.model.codec import Arguments, Codec, decoded
from durable.model.ids import check_reason, check_text
from durable.model.registry import Registry
from durable.model.requests import KeptRequest
from durable.model.schedule import Plan, check_name
from durable.runner.declared import declared_events
from durable.runner.definitions import WorkflowDef

LIMIT_MAX = 1_000
# Fields that hold JSON text. They may be long (`max_payload_bytes`) and are checked where their type is known.
_PAYLOADS = frozenset({"input", "payload", "answer", "value", "progress"})
# Durations in microseconds, which must not be negative.
_COUNTS = frozenset({"delay", "expire_after"})


def receive(form: Form, registry: Registry[WorkflowDef[Any, Any]], codec: Codec) -> Operation[Any]:
    """The operation of a form, ready to be decided.

    Raises `NotSupported`, `CodecError`, `InvalidValue`, or `UnknownWorkflow` if the registry does not have its code.
    """
    operation = read_operation(form)
    for name, value in _fields(operation):
        _check(name, value)
    if isinstance(operation, StartWorkflow):
        definition = registry.get(operation.name, operation.version)
        text, arguments = _stored_call(definition, operation.input, codec)
        version = definition.version
        return attrs.evolve(operation, version=version, definition=definition, input=text, arguments=arguments)
    if isinstance(operation, CreateSchedule):
        return _schedule(operation, registry, codec)
    if isinstance(operation, SendEvent):
        decoded(f"event {operation.name}: payload", operation.payload, "given")
        return settled(operation, registry, codec)
    return operation


def settled(operation: SendEvent, registry: Registry[WorkflowDef[Any, Any]], codec: Codec) -> SendEvent:
    """An event by name, with the settings of the `Event` that the code of the workflows declares, if it does.

    Any other event as it is. Raises `CodecError` if the payload is not of the type of that event.
    """
    event = declared_events(registry).get(operation.name) if operation.by_name else None
    if event is None:
        return operation
    event.coder(codec).unpack(operation.payload)
    return sent_as(operation, event)


def receive_kept(kept: KeptRequest, registry: Registry[WorkflowDef[Any, Any]], codec: Codec) -> DecideKept:
    """A request that a client has kept, ready to be decided. If it is refused here, the refusal is part of it.

    This runs in the coordinator's thread, while the engine opens and nobody waits for it yet.
    """
    sent: Operation[Any] | None = None
    try:
        form = read_text(kept.operation)
        sent = read_operation(form)
        return DecideKept(kept, receive(form, registry, codec))
    except DurableError as refusal:
        return DecideKept(kept, sent, refusal)


def _schedule(operation: CreateSchedule, registry: Registry[WorkflowDef[Any, Any]], codec: Codec) -> CreateSchedule:
    check_name(operation.name)
    job = operation.job
    definition = registry.get(job.workflow, job.version)
    text, _ = _stored_call(definition, job.input, codec)
    job = attrs.evolve(job, version=definition.version, input=text, plan=_plan(job.plan))
    return attrs.evolve(operation, definition=definition, job=job)


def _plan(plan: Plan) -> Plan:
    """The same plan, checked: an invalid expression would stop the engine at the first tick."""
    every = None if plan.every is None else timedelta(microseconds=plan.every)
    return Plan.of(plan.cron, every, plan.timezone if every is None else None)


def _stored_call(definition: WorkflowDef[Any, Any], text: str, codec: Codec) -> tuple[str, Arguments]:
    """The arguments of a call as stored text, and as they are decoded from it. Raises `CodecError`."""
    coder = definition.coder(codec)
    args, kwargs = coder.unpack_arguments(text)
    return coder.pack_call(args, kwargs)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field of an operation, and of the values inside it, as name and value."""
    for field in attrs.fields(type(value)):
        part = getattr(value, field.name)
        if isinstance(part, Plan):
            # `_plan` checks it as a whole.
            continue
        if attrs.has(type(part)):
            yield from _fields(part)
        elif isinstance(part, tuple):
            yield from ((field.name, item) for item in part)
        else:
            yield field.name, part


def _check(name: str, value: object) -> None:
    """Raises `InvalidValue` for a value that the façade would refuse."""
    if isinstance(value, int):
        if name == "limit" and not 1 <= value <= LIMIT_MAX:
            raise InvalidValue("limit", f"must be 1 to {LIMIT_MAX}, not {value}; use after= for the next page")
        if name in _COUNTS and value < 0:
            raise InvalidValue(name, f"must not be negative, as {value} is")
    elif not isinstance(value, str) or name in _PAYLOADS or (name == "event_key" and not value):
        return
    elif name == "reason":
        check_reason(value)
    else:
        check_text(name, value)
