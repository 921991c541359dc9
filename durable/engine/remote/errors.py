"""Errors on a wire: the stored name, the message, and the fields by name.

Only classes of durable come back as themselves. Any other name arrives as `RemoteError`, and so does a known name whose
fields do not fit: whatever version the other side runs, the caller gets its message.
"""

from __future__ import annotations

import functools
from typing import Any

import attrs
from cattrs import Converter

from durable.errors import Cancelled, RemoteError, RetryAfter, WorkflowTerminated
from durable.model.error_codec import error_summary, pack_error
from durable.model.exceptions.stored_names import own_class
from durable.model.statuses import WorkflowStatus

# The fields of errors that are not attrs classes, as their constructors take them.
_FIELDS: dict[type[BaseException], dict[str, Any]] = {
    Cancelled: {"reason": str | None},
    RetryAfter: {"delay": float, "message": str},
    WorkflowTerminated: {"workflow_id": str, "status": WorkflowStatus},
}


@attrs.frozen
class ErrorForm:
    """The form of an error: its stored name, its message, its fields as JSON data."""

    name: str
    message: str
    fields: dict[str, Any]


def register(converter: Converter) -> None:
    """Let a converter write and read errors, including those inside replies and other errors."""
    is_error = lambda kind: isinstance(kind, type) and issubclass(kind, BaseException)  # noqa: E731
    converter.register_unstructure_hook_func(is_error, functools.partial(write_error, converter))
    converter.register_structure_hook_func(is_error, lambda data, _: read_error(converter, data))


def write_error(converter: Converter, error: BaseException) -> dict[str, Any]:
    """The form of an error of any class. Only a class of durable has fields in it."""
    name, message = error_summary(pack_error(error))
    kind = type(error)
    # A user's subclass has its own name, and the reader could not know its fields.
    types = _fields_of(kind) if own_class(name) is kind else {}
    fields = {field: converter.unstructure(getattr(error, field), type) for field, type in types.items()}
    return {"name": name, "message": message, "fields": fields}


def read_error(converter: Converter, data: Any) -> BaseException:
    """The error of a form. Raises what the converter raises if the data is not the form of an error."""
    form = converter.structure(data, ErrorForm)
    kind = own_class(form.name)
    if kind is None or not issubclass(kind, BaseException):
        return RemoteError(form.name, form.fields, form.message)
    try:
        types = _fields_of(kind)
        fields = {name: converter.structure(form.fields[name], type) for name, type in types.items()}
        return kind(**fields) if types else kind(form.message)
    except Exception:
        # Another version has other fields.
        return RemoteError(form.name, form.fields, form.message)


def _fields_of(kind: type[BaseException]) -> dict[str, Any]:
    """The fields of an error class of durable, with their types. Empty if it has only a message."""
    cls: Any = kind
    if not attrs.has(cls):
        return _FIELDS.get(kind, {})
    return {field.name: field.type for field in attrs.fields(attrs.resolve_types(cls))}
