"""Types of pydantic, and types that only pydantic understands, if the program has loaded it.

This module never imports pydantic: a program that has not loaded it cannot have values of its types. Knows types and
JSON data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime, time
from typing import Any, ForwardRef

from durable.model.shapes.sameness import field_names, zones_in
from durable.model.shapes.zones import read_datetime, read_time, write_datetime, write_time, zone_key

Shape = tuple[Callable[[Any], Any], Callable[[Any], Any]]

SECRETS = (
    "secrets cannot be stored, because everyone who can read the store could read them; "
    "pass a reference, such as the name of the secret, and look it up in the activity that needs it"
)
_LOOK_DEPTH = 8


def is_model(annotation: Any) -> bool:
    """Whether it is a model class of pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)


def model_shape(annotation: Any, _converter: object) -> Shape:
    """The shape of a model. It is read by validation, so its validators run on every read."""

    def write(value: Any) -> Any:
        data = value.model_dump(mode="json", by_alias=True, round_trip=True)
        return _with_zones(data, value, lambda: value.model_dump(by_alias=True, round_trip=True))

    return write, lambda data: annotation.model_validate(_zoned(data))


# --- time zones ---------------------------------------------------------------------------------------------------

# pydantic writes the offset of a time and loses its zone. A value with zones is stored as an object with two keys: the
# data, in which these times have the form of RFC 9557, and the paths to these times.
_ZONES, _DATA = "$zones", "value"


def _with_zones(data: Any, value: Any, plain: Callable[[], Any]) -> Any:
    """The JSON data of a value, with the zones of its times. `plain` returns the same data with unconverted times."""
    if not zones_in(value):
        return data
    paths: list[list[Any]] = []
    return {_DATA: _named(data, plain(), [], paths), _ZONES: paths}


def _named(data: Any, plain: Any, path: list[Any], paths: list[list[Any]]) -> Any:
    """JSON data with the zones of the times at the same places in the plain data. Adds their paths to `paths`."""
    if type(data) is str and isinstance(plain, datetime | time) and zone_key(plain) is not None:
        paths.append(path)
        return write_datetime(plain) if isinstance(plain, datetime) else write_time(plain)
    if type(data) is list and isinstance(plain, list | tuple) and len(data) == len(plain):
        return [_named(item, twin, [*path, at], paths) for at, (item, twin) in enumerate(zip(data, plain, strict=True))]
    if type(data) is dict and isinstance(plain, dict) and len(data) == len(plain):
        pairs = zip(data.items(), plain.values(), strict=True)
        return {key: _named(item, twin, [*path, key], paths) for (key, item), twin in pairs}
    return data


def _zoned(data: Any) -> Any:
    """The data to validate: times with a stored zone are already read."""
    if type(data) is not dict or data.keys() != {_DATA, _ZONES}:
        return data
    holder = [data[_DATA]]
    for path in data[_ZONES]:
        place: Any = holder
        steps = [0, *path]
        last = steps.pop()
        for key in steps:
            place = place[key]
        text = place[last]
        place[last] = read_datetime(text) if "T" in text.partition("[")[0] else read_time(text)
    return holder[0]


def is_secret(annotation: Any) -> bool:
    """Whether it is a secret type of pydantic, whose values hide their content."""
    pydantic = sys.modules.get("pydantic")
    kinds = () if pydantic is None else (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)
    return isinstance(annotation, type) and issubclass(annotation, kinds)


def secret_in(value: Any, depth: int = 0) -> str | None:
    """The name of the class of the first secret in a value; None if it contains none."""
    kind = type(value)
    if is_secret(kind):
        return kind.__name__
    parts: Iterable[Any] = ()
    if is_model(kind):
        parts = vars(value).values()
    elif (names := field_names(kind)) is not None:  # type: ignore[arg-type]  # mypy takes a class for unhashable
        parts = [getattr(value, name, None) for name in names]
    elif issubclass(kind, list | tuple | set | frozenset):
        parts = value
    elif issubclass(kind, dict):
        parts = value.values()
    secrets = (secret_in(part, depth + 1) for part in parts) if depth < _LOOK_DEPTH else ()
    return next(filter(None, secrets), None)


# --- errors -------------------------------------------------------------------------------------------------------


def is_validation_error(cls: type) -> bool:
    """Whether it is the class of error that pydantic raises for a value that fails validation."""
    core = sys.modules.get("pydantic_core")
    return core is not None and cls is core.ValidationError


def validation_args(error: Any) -> tuple[Any, ...]:
    """The parts of a validation error as plain values: its title, and its list of problems."""
    return error.title, error.errors(include_url=False)


def make_validation_error(cls: Any, args: list[Any]) -> BaseException:
    """The validation error with these parts. Raises `TypeError`, `ValueError` or `KeyError` if they are damaged."""
    title, lines = args
    error: BaseException = cls.from_exception_data(title, [_line(dict(line)) for line in lines])
    return error


def _line(line: dict[str, Any]) -> dict[str, Any]:
    """One problem of a validation error, with the type that reproduces its message.

    If pydantic would produce another message, a custom error carries the stored one.
    """
    core = sys.modules["pydantic_core"]
    place = {"loc": tuple(line["loc"]), "input": line["input"]}
    exact = {**place, "type": line["type"], "ctx": line.get("ctx") or {}}
    try:
        if core.ValidationError.from_exception_data("", [exact]).errors()[0]["msg"] == line["msg"]:
            return exact
    except Exception:  # a user-defined type of error, or a context that was stored as text
        pass
    return {**place, "type": core.PydanticCustomError(line["type"], line["msg"])}


def adapter_shape(annotation: Any) -> Shape | None:
    """The shape of a type that only pydantic understands; None if it does not either, or is not loaded."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or isinstance(annotation, str | ForwardRef):
        # pydantic accepts an unresolved name and defers the failure until a value is written.
        return None
    try:
        adapter = pydantic.TypeAdapter(annotation)
        # Some types, such as `Callable`, can be validated but not written.
        adapter.json_schema(mode="serialization")
    except Exception:
        return None

    def write(value: Any) -> Any:
        data = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")
        return _with_zones(data, value, lambda: adapter.dump_python(value, by_alias=True, round_trip=True))

    return write, lambda data: adapter.validate_python(_zoned(data))
