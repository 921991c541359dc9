"""How a value becomes JSON data by its annotation, and comes back.

`make_converter` makes a cattrs converter. cattrs handles attrs classes, dataclasses, TypedDicts, enums, Literal,
NewType and Annotated. The hooks here handle the other types, exactly or not at all. A type that neither handles is left
to pydantic, if that is loaded. This module knows types and JSON data. It knows nothing about stored text, functions,
workflows or errors of durable: a failure is an ordinary exception, which the codec turns into a `CodecError`.

To add a type: write its shape (or its two text functions), add it to `_SHAPES` (or `_TEXTS`), and pin its JSON form in
`tests/formats`. The order of `_SHAPES` matters to cattrs: the last matching hook wins.
"""

from __future__ import annotations

import base64
import collections.abc as abc
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    Never,
    NewType,
    NoReturn,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import msgspec
from cattrs import Converter
from typing_extensions import is_typeddict

from durable.model.shapes.aliases import is_alias, resolve
from durable.model.shapes.pydantic_types import SECRETS, adapter_shape, is_model, is_secret, model_shape
from durable.model.shapes.sameness import SCALARS, NoneType, show
from durable.model.shapes.zones import read_datetime, read_time, write_datetime, write_time

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Shape = tuple[Write, Read]

TAG, VALUE = "$type", "value"
STORABLE = "use JSON types, a dataclass, an attrs class, an enum or a pydantic model"


class Misfit(TypeError):
    """A value does not have the type of its annotation. The message is for people, so the codec shows it."""


_MICROSECOND = timedelta(microseconds=1)
_LISTS = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable})
_DICTS = frozenset({dict, abc.Mapping, abc.MutableMapping})
_SETS = frozenset({set, frozenset, abc.Set, abc.MutableSet})
# The JSON classes from which each scalar may be read.
_READABLE: dict[type, frozenset[type]] = {
    bool: frozenset({bool}),
    int: frozenset({int, bool}),
    float: frozenset({float, int, bool}),
    str: frozenset({str}),
    NoneType: frozenset({NoneType}),
}


# --- annotations --------------------------------------------------------------------------------------------------


def unwrap(annotation: Any) -> Any:
    """The type behind a NewType, an Annotated or an alias."""
    while True:
        if is_alias(annotation):
            annotation = resolve(annotation)
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif get_origin(annotation) is Annotated:
            annotation = annotation.__origin__
        else:
            return NoneType if annotation is None else annotation


def is_open(annotation: Any) -> bool:
    """Whether an annotation says nothing about the value. Then the value must already be plain JSON."""
    return annotation in (Any, object, NoReturn, Never) or isinstance(annotation, TypeVar)


def scalar_kinds(annotation: Any) -> frozenset[type]:
    """The classes whose values are their own JSON form under this annotation."""
    annotation = unwrap(annotation)
    if is_open(annotation):
        return SCALARS
    if _is_union(annotation):
        return frozenset[type]().union(*map(scalar_kinds, get_args(annotation)))
    return frozenset({annotation}) & SCALARS


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_origin(origins: Iterable[Any]) -> Callable[[Any], bool]:
    wanted = frozenset(origins)
    return lambda annotation: (get_origin(annotation) or annotation) in wanted


def _is_namedtuple(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields")


# --- shapes: how to write and read values of an annotation --------------------------------------------------------


_AS_IT_IS: Shape = (lambda value: value, lambda data: data)


def _member(annotation: Any, converter: Converter) -> Shape:
    """The shape of a part inside another shape."""
    try:
        write, hook = converter.get_unstructure_hook(annotation), converter.get_structure_hook(annotation)
    except RecursionError:
        # A class that contains itself: its hooks are still being built, so look them up when they are used.
        return (
            lambda value: converter.unstructure(value, unstructure_as=annotation),
            lambda data: converter.structure(data, annotation),
        )
    return write, lambda data: hook(data, annotation)


def _of(kind: type, data: Any) -> Any:
    """The data itself, if it has this JSON class. Raises `Misfit`."""
    if type(data) is not kind:
        raise Misfit(f"expected {'an array' if kind is list else 'an object'}, got {show(data)}")
    return data


def _list_shape(annotation: Any, converter: Converter) -> Shape:
    """The shape of a list or another sequence: a JSON array."""
    write, read = _member((*get_args(annotation), Any)[0], converter)
    return lambda value: [write(item) for item in value], lambda data: [read(item) for item in _of(list, data)]


def _set_shape(annotation: Any, converter: Converter) -> Shape:
    """The shape of a set or frozenset: a sorted JSON array."""
    write, read = _member((*get_args(annotation), Any)[0], converter)
    make = frozenset if (get_origin(annotation) or annotation) is frozenset else set
    # Sorted by their text, so that equal sets give equal texts.
    return (
        lambda value: sorted([write(item) for item in value], key=msgspec.json.encode),
        lambda data: make([read(item) for item in _of(list, data)]),
    )


def _tuple_shape(annotation: Any, converter: Converter) -> Shape:
    """The shape of a tuple: of any length if its annotation ends with `...`, otherwise with a type for each place."""
    args = get_args(annotation) or (Any, ...)
    if args[-1] is ...:
        write, read = _list_shape(types.GenericAlias(list, args[:1]), converter)
        return write, lambda data: tuple(read(data))
    return _fixed_shape(args, tuple, converter)


def _namedtuple_shape(annotation: Any, converter: Converter) -> Shape:
    hints = get_type_hints(annotation)
    args = [hints.get(name, Any) for name in annotation._fields]
    return _fixed_shape(args, lambda values: annotation(*values), converter)


def _fixed_shape(args: Iterable[Any], make: Callable[[list[Any]], Any], converter: Converter) -> Shape:
    """The shape of a value with a fixed number of members: a JSON array. Another length raises `ValueError`."""
    shapes = [_member(item, converter) for item in args]
    return (
        lambda value: [write(item) for (write, _), item in zip(shapes, value, strict=True)],
        lambda data: make([read(item) for (_, read), item in zip(shapes, _of(list, data), strict=True)]),
    )


def _dict_shape(annotation: Any, converter: Converter) -> Shape:
    """The shape of a mapping: a JSON object, whose keys are text or JSON text."""
    key, value = get_args(annotation) or (Any, Any)
    write_key, read_key = _member(key, converter)
    write, read = _member(value, converter)
    if not _is_text(unwrap(key)):
        # JSON keys are text, so any other key becomes its JSON text: 5 is "5", (1, "a") is "[1,\"a\"]".
        plain_write, plain_read = write_key, read_key
        write_key = lambda item: msgspec.json.encode(plain_write(item)).decode()  # noqa: E731
        read_key = lambda text: plain_read(msgspec.json.decode(text))  # noqa: E731
    return (
        lambda mapping: {write_key(name): write(item) for name, item in mapping.items()},
        lambda data: {read_key(name): read(item) for name, item in _of(dict, data).items()},
    )


def _typeddict_shape(annotation: Any, converter: Converter) -> Shape:
    """The shape of a TypedDict: a JSON object. Missing required keys are refused; extra keys are kept as they are."""
    origin = get_origin(annotation) or annotation
    shapes = {name: _member(hint, converter) for name, hint in get_type_hints(origin).items()}
    # `__required_keys__` is wrong for `NotRequired` in annotations that are text.
    extras = get_type_hints(origin, include_extras=True)
    required = {name for name in origin.__required_keys__ if get_origin(extras[name]) is not NotRequired}

    def read(data: Any) -> Any:
        if not required <= _of(dict, data).keys():
            raise Misfit(f"the key {min(required - data.keys())!r} is missing")
        return {name: shapes.get(name, _AS_IT_IS)[1](item) for name, item in data.items()}

    return lambda value: {name: shapes.get(name, _AS_IT_IS)[0](item) for name, item in value.items()}, read


def _is_text(key: Any) -> bool:
    """Whether values of this type are always written as a JSON string."""
    if get_origin(key) is Literal:
        return all(type(value) is str for value in get_args(key))
    if isinstance(key, type) and issubclass(key, Enum):
        return all(type(value.value) is str for value in key)
    return is_open(key) or key in (str, bytes, UUID, Decimal, datetime, date, time)


def _union_shape(annotation: Any, converter: Converter) -> Shape:
    """Scalars as they are, other members as {"$type": its name, "value": ...}. Names are unique in this union only."""
    members = list(dict.fromkeys(_members(annotation)))
    if any(map(is_open, members)):
        return _AS_IT_IS
    tagged = [member for member in members if member not in SCALARS and not _is_scalar_literal(member)]
    if len(tagged) == 1 and len(members) == 2 and NoneType in members:
        write, read = _member(tagged[0], converter)
        return (
            lambda value: None if value is None else write(value),
            lambda data: None if data is None else read(data),
        )
    is_raw = _raw_test(members)
    writers: dict[type, tuple[str, Write]] = {}
    readers: dict[str, Read] = {}
    for member in tagged:
        kind, name = _runtime_class(member), _runtime_class(member).__name__
        if kind in writers or name in readers:
            raise TypeError(f"two members of the union are a {name} and cannot be told apart when stored")
        write, readers[name] = _member(member, converter)
        writers[kind] = (name, write)

    def write_union(value: Any) -> Any:
        if is_raw(value):
            return value
        if type(value) not in writers:
            raise Misfit(f"{type(value).__name__} is not one of the types of the union")
        name, write = writers[type(value)]
        return {TAG: name, VALUE: write(value)}

    def read_union(data: Any) -> Any:
        return data if is_raw(data) else readers[_of(dict, data)[TAG]](data[VALUE])

    return write_union, read_union


def _members(union: Any) -> Iterator[Any]:
    """The members of a union. An alias of a union counts as all of its members."""
    for member in map(unwrap, get_args(union)):
        if _is_union(member):
            yield from _members(member)
        else:
            yield member


def _is_scalar_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal and all(type(value) in SCALARS for value in get_args(annotation))


def _raw_test(members: list[Any]) -> Callable[[Any], bool]:
    """A test for values of a union that are stored without a name: scalars, and literals of scalars."""
    kinds = frozenset[type]().union(*(_READABLE[member] for member in members if member in SCALARS))
    literals = {(type(value), value) for member in members if _is_scalar_literal(member) for value in get_args(member)}
    return lambda value: type(value) in kinds or (type(value) in SCALARS and (type(value), value) in literals)


def _runtime_class(annotation: Any) -> type:
    """The class of the values of a member of a union. Raises `TypeError` if they have no single class."""
    origin = get_origin(annotation) or annotation
    for kind, family in ((list, _LISTS), (dict, _DICTS)):
        if origin in family or (kind is dict and is_typeddict(origin)):
            return kind
    if not isinstance(origin, type):
        raise TypeError(f"{annotation} cannot be stored as a member of a union")
    return set if origin in (abc.Set, abc.MutableSet) else origin


def _secret_shape(_annotation: Any, _converter: Converter) -> Shape:
    def refuse(_: Any) -> Any:
        raise Misfit(SECRETS)

    return refuse, refuse


def _alias_shape(building: set[Any], annotation: Any, converter: Converter) -> Shape:
    """The shape of an alias. `building` holds the aliases in progress, to stop the recursion of a recursive one."""
    if annotation in building:
        # An alias that contains itself. Its shape is complete by the time a value is written or read.
        shape = functools.cache(lambda: _member(resolve(annotation), converter))
        return lambda value: shape()[0](value), lambda data: shape()[1](data)  # noqa: PLW0108  # looked up when used
    building.add(annotation)
    try:
        return _member(resolve(annotation), converter)
    finally:
        building.discard(annotation)


# --- the converter ------------------------------------------------------------------------------------------------

_SHAPES: tuple[tuple[Callable[[Any], bool], Callable[[Any, Converter], Shape]], ...] = (
    (is_open, lambda _annotation, _converter: _AS_IT_IS),
    (_is_origin(_LISTS), _list_shape),
    (_is_origin(_SETS), _set_shape),
    (_is_origin(_DICTS), _dict_shape),
    (_is_origin([tuple]), _tuple_shape),
    (_is_namedtuple, _namedtuple_shape),
    (is_typeddict, _typeddict_shape),
    (_is_union, _union_shape),
    (is_model, model_shape),
    (is_secret, _secret_shape),
)

_TEXTS: tuple[tuple[type, Write, Read], ...] = (
    (bytes, lambda value: base64.b64encode(value).decode(), lambda data: base64.b64decode(data, validate=True)),
    (datetime, write_datetime, read_datetime),
    (date, date.isoformat, date.fromisoformat),
    (time, write_time, read_time),
    (timedelta, lambda value: value // _MICROSECOND, lambda data: timedelta(microseconds=data)),
    (UUID, str, UUID),
    (Decimal, str, Decimal),
)


def make_converter(*, detailed_validation: bool = False) -> Converter:
    """A converter with every hook that durable needs. Register your own hooks on it and pass it to `Codec`."""
    converter = Converter(
        detailed_validation=detailed_validation,
        unstructure_fallback_factory=_unknown_write,
        structure_fallback_factory=_unknown_read,
    )
    for matches, shape in _SHAPES:
        _register(converter, matches, shape)
    _register(converter, is_alias, functools.partial(_alias_shape, set()))
    for kind, write, read in _TEXTS:
        converter.register_unstructure_hook(kind, write)
        converter.register_structure_hook(kind, _reader(read))
    for kind in SCALARS:
        converter.register_structure_hook(kind, _scalar_reader(kind))
    return converter


def _unknown_write(annotation: Any) -> Write:
    """The hook for writing a type that has none: pydantic's, or the value as it is."""
    shape = None if annotation in SCALARS else adapter_shape(annotation)
    return (shape or _AS_IT_IS)[0]


def _unknown_read(annotation: Any) -> Callable[[Any, Any], Any]:
    """The hook for reading a type that has none. Raises `TypeError` if pydantic cannot read it either."""
    shape = adapter_shape(annotation)
    if shape is None:
        name = annotation.__name__ if isinstance(annotation, type) else annotation
        raise TypeError(f"{name} is not a type that can be stored")
    return _reader(shape[1])


def _register(converter: Converter, matches: Callable[[Any], bool], shape: Callable[[Any, Converter], Shape]) -> None:
    """Register a shape with cattrs, for every annotation that matches."""
    converter.register_unstructure_hook_factory(matches, lambda annotation: shape(annotation, converter)[0])
    converter.register_structure_hook_factory(matches, lambda annotation: _reader(shape(annotation, converter)[1]))


def _reader(read: Read) -> Callable[[Any, Any], Any]:
    return lambda data, _annotation: read(data)


def _scalar_reader(kind: type) -> Callable[[Any, Any], Any]:
    """The reader of a scalar: strict about classes, apart from the promotions in `_READABLE`."""
    readable = _READABLE[kind]

    def read(data: Any, annotation: Any) -> Any:
        if type(data) is annotation:
            return data
        if type(data) not in readable:
            hint = " (NaN and Infinity cannot be stored)" if kind is float and data is None else ""
            raise Misfit(f"expected {kind.__name__}, got {show(data)} ({type(data).__name__}){hint}")
        # cattrs also uses this hook for subclasses, such as an IntEnum.
        return annotation(data)

    return read
