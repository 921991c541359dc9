"""How values become JSON and come back: the common part of operations on a wire and letters between shards.

A form is a JSON object that names its kind and holds its fields. Fields are matched by name, so either side may have
more of them than the other. Values are read strictly by their annotations: no int from a string, no default for a
missing field that needs a value. Every failure is a `CodecError` that says which field is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
from cattrs import Converter, transform_error
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory, namedtuple_dict_unstructure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from msgspec.json import decode, encode

from durable.engine.operations.events import SendEvent
from durable.engine.operations.schedules import CreateSchedule
from durable.engine.operations.workflows import StartWorkflow
from durable.errors import CodecError, NotSupported
from durable.model.shapes.converter import Misfit, make_converter
from durable.model.shapes.sameness import show
from durable.model.version import VERSION

Form = dict[str, Any]
T = TypeVar("T")
# Integers are stored in 64 bits.
_INT_MAX = (1 << 63) - 1
# The longest name of a type that travels. It is only shown to people.
_NAME_LENGTH_MAX = 200
# Fields that never leave the process.
_HERE = override(omit=True)


def read_named(converter: Converter, form: Form, name_field: str, table: Mapping[str, type[T]]) -> T:
    """The value of a form whose kind is named in `name_field`. Raises `NotSupported` for a name not in the table."""
    name = part_of(form, name_field)
    if not isinstance(name, str) or name not in table:
        raise NotSupported(name if isinstance(name, str) else show(name), VERSION)
    value: T = read_value(converter, part_of(form, "fields"), table[name], name)
    return value


def write_text(form: Form) -> str:
    """A form as one line of JSON."""
    return encode(form).decode()


def read_text(text: str | bytes) -> Form:
    """The form in a line of JSON. Raises `CodecError` if it is not a JSON object."""
    try:
        form = decode(text)
    except Exception as error:
        raise CodecError("wire", f"{show(text)} is not JSON") from error
    if type(form) is not dict:
        raise CodecError("wire", f"expected a JSON object, got {show(form)}")
    return form


def part_of(form: Form, name: str) -> Any:
    """A required part of a form. Raises `CodecError` if it is missing."""
    if name not in form:
        raise CodecError("wire", f"the field {name!r} is missing in {show(form)}")
    return form[name]


def read_value(converter: Converter, data: Any, annotation: Any, where: str) -> Any:
    """A value of a form, read strictly by its type. Raises a `CodecError` that lists every problem under `where`."""
    try:
        return converter.structure(data, annotation)
    except Exception as error:
        problems = transform_error(error, where, format_exception=_in_words)
        raise CodecError("wire", "; ".join(problems)) from error


def _in_words(error: BaseException, annotation: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    if isinstance(error, Misfit):
        return str(error)
    return f"expected {getattr(annotation, '__name__', annotation)}, got something else ({error})"


@attrs.frozen
class TypeName:
    """The type of a payload, of which only the name arrived.

    It equals no real type. So it never matches the type that a workflow waits for, and the payload itself is checked.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


def form_converter() -> Converter:
    """A converter for everything that travels except errors. Making one compiles code, so callers keep it."""
    converter = make_converter(detailed_validation=True)
    # By name rather than by place: the other side may have more fields.
    converter.register_unstructure_hook_factory(is_namedtuple, namedtuple_dict_unstructure_factory)
    converter.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    converter.register_structure_hook(int, _read_int)
    code = {"definition": _HERE, "arguments": _HERE}
    _override(converter, StartWorkflow, **code)
    _override(converter, CreateSchedule, definition=_HERE)
    _override(
        converter,
        SendEvent,
        payload_type=override(unstruct_hook=_type_name, struct_hook=_read_type_name),
    )
    return converter


def _override(converter: Converter, kind: type[Any], **fields: Any) -> None:
    attrs.resolve_types(kind)
    converter.register_unstructure_hook(kind, make_dict_unstructure_fn(kind, converter, **fields))
    converter.register_structure_hook(kind, make_dict_structure_fn(kind, converter, **fields))


def _read_int(data: Any, _annotation: Any) -> int:
    if type(data) is not int:
        raise Misfit(f"expected int, got {show(data)} ({type(data).__name__})")
    if not -_INT_MAX <= data <= _INT_MAX:
        raise Misfit(f"{show(data)} does not fit into 64 bits")
    return data


def _type_name(kind: Any) -> str | None:
    if kind is None:
        return None
    if not isinstance(kind, type):
        return repr(kind)[:_NAME_LENGTH_MAX]
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_NAME_LENGTH_MAX]


def _read_type_name(data: Any, _annotation: Any) -> TypeName | None:
    if data is None:
        return None
    if type(data) is not str:
        raise Misfit(f"expected str, got {show(data)} ({type(data).__name__})")
    return TypeName(data)
