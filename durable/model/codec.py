"""Values as JSON text, by annotation, written and read back before they are accepted.

A `Coder` knows one annotation, a `FunctionCoder` the parameters and the result of one function; a `Codec` makes and
keeps both. This room knows functions and JSON text. It must not know what the function is for (activity, workflow,
event): the words for that are given to it. Every failure is a `CodecError` that says where; nothing here is ever
pickled, imported or looked up by a stored name.
"""

from __future__ import annotations

import collections.abc as abc
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cattrs import Converter
from msgspec.json import decode, encode

from durable.errors import CodecError
from durable.model.shapes.converter import STORABLE, Misfit, is_open, make_converter, scalar_kinds, unwrap
from durable.model.shapes.pydantic_types import SECRETS, is_model, secret_in
from durable.model.shapes.sameness import SCALARS, difference, fresh, show
from durable.model.unfinished import Unfinished, remedy_in

V = TypeVar("V")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

# Both caches are emptied when they are full: functions and names may be made without end, `call(lambda: ...)` say.
CACHED_MAX = 10_000
# What the writer of JSON says of a class that it does not know.
_NOT_JSON = re.compile(r"Encoding objects of type (\S+) is unsupported")
# Scalars of which every value can be stored and none can change.
_PLAIN = SCALARS - {str, float}


class Codec:
    """Makes coders for annotations and functions, and keeps them."""

    def __init__(self, converter: Converter | None = None) -> None:
        self._converter = make_converter() if converter is None else converter
        self._coders: dict[tuple[Any, str], Coder] = {}
        self._functions: dict[tuple[Any, str], FunctionCoder] = {}

    def coder(self, annotation: Any, where: str) -> Coder:
        """The coder of an annotation. Raises `CodecError` for a type that cannot be stored."""
        return _cached(self._coders, (annotation, where), lambda: Coder(annotation, where, self._converter))

    def function(self, fn: Callable[..., Any], name: str) -> FunctionCoder:
        """The coder of a function's parameters and result; `name` says in words what the function is."""
        return _cached(self._functions, (fn, name), lambda: FunctionCoder(fn, name, self))


def _cached(cache: dict[tuple[Any, str], V], key: tuple[Any, str], make: Callable[[], V]) -> V:
    try:
        known = cache.get(key)
    except TypeError:
        return make()
    if known is None:
        known = make()
        if len(cache) >= CACHED_MAX:
            cache.clear()
        cache[key] = known
    return known


class Coder:
    """Values of one annotation to JSON text and back."""

    __slots__ = ("_annotation", "_quick", "_read", "_write", "where")

    def __init__(self, annotation: Any, where: str, converter: Converter) -> None:
        self.where = where
        if isinstance(annotation, type) and issubclass(annotation, Unfinished):
            # What it is asked to store then says what to do, which is more than that its class cannot be stored.
            annotation = Any
        self._annotation = annotation
        try:
            self._annotation = annotation = unwrap(annotation)
            # Values of these classes are their own JSON form: nothing to convert, and nothing that could get lost.
            self._quick = scalar_kinds(annotation)
            self._write = converter.get_unstructure_hook(annotation)
            self._read = converter.get_structure_hook(annotation)
        except Exception as error:
            raise CodecError(where, f"{_name(annotation)} cannot be stored: {_brief(error)}; {STORABLE}") from error

    def pack(self, value: Any) -> tuple[str, Any]:
        """The JSON text of a value, and the value as it will be read. Raises `CodecError` if it does not survive."""
        kind = type(value)
        try:
            if kind in self._quick and (kind is not float or math.isfinite(value)):
                return encode(value).decode(), value
            text = encode(self._write(value)).decode()
            back = self._read(decode(text), self._annotation)
            problem = difference(value, back)
        except Exception as error:
            raise CodecError(self.where, _secret(value) or remedy_in(value) or self._misfit(value, error)) from error
        if problem is not None:
            fix = _KEEP if is_model(kind) else _ANNOTATE
            raise CodecError(self.where, _secret(value) or f"{problem}; {fix}")
        return text, back

    @property
    def expects(self) -> str:
        """The annotation, in words."""
        return _name(self._annotation)

    def unpack(self, text: str) -> Any:
        """The value of a JSON text. Raises `CodecError`, and nothing else."""
        return self.read(decoded(self.where, text))

    def read(self, data: Any, source: str = "stored") -> Any:
        """The value of JSON data that is decoded already. Raises `CodecError`, and nothing else."""
        try:
            return self._read(data, self._annotation)
        except Exception as error:
            text = f"the {source} {show(data)} does not fit {self.expects}{_detail(error)}"
            raise CodecError(self.where, text) from error

    def _misfit(self, value: Any, error: Exception) -> str:
        """Why a value is refused, and what to do."""
        if is_open(self._annotation):
            return f"{show(value)} is not plain JSON, and no annotation says how to store it{_detail(error)}"
        problem = f"expected {_name(self._annotation)}, got {show(value)} ({type(value).__name__})"
        detail = _detail(error)
        if isinstance(error, AttributeError) or detail == f": {problem}":
            # Of a value of another class it tells only what the writer stumbled over, or the same once more.
            detail = ""
        return f"{problem}{detail}; pass what the annotation says, or change the annotation"


# What to do about a value that does not survive.
_ANNOTATE = "annotate it with the type that it has"
_KEEP = "its serializer loses something; keep what gets lost, such as a time zone, in a field of its own"

# Parameters that a call may leave out.
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class FunctionCoder:
    """The arguments of one function to JSON text and back, and the coder of its result.

    Annotations are resolved when they are first needed: a decorator runs before the names below it exist.
    """

    def __init__(self, fn: Callable[..., Any], name: str, codec: Codec) -> None:
        self._fn = fn
        self._name = name
        self._codec = codec
        self._signature = _signature(fn)
        self._parameters = self._signature.parameters
        simple = all(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in self._parameters.values())
        self._most = len(self._parameters) if simple else -1
        self._keys = {name: encode(name).decode() for name in self._parameters}
        self._least = sum(one.default is Parameter.empty for one in self._parameters.values())
        # Whether a call that leaves an argument out would share something that can change with all other calls.
        defaults = [one.default for one in self._parameters.values() if one.default is not Parameter.empty]
        self._shares = not all(map(_is_constant, defaults))

    @functools.cached_property
    def result(self) -> Coder:
        """The coder of what the function returns in the end. Raises `CodecError` if it has none."""
        annotation = unwrap(self._hints.get("return", Any))
        if get_origin(annotation) in (abc.Generator, abc.Coroutine, abc.Awaitable):
            annotation = get_args(annotation)[-1]
        return self._codec.coder(annotation, f"{self._name}: result")

    @functools.cached_property
    def first(self) -> Coder | None:
        """The coder of the first parameter; None if it has no annotation. Raises `CodecError`."""
        name = next(iter(self._parameters), None)
        return self._coders[name] if name is not None and name in self._hints else None

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raises `TypeError` if the function cannot be called like this."""
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)

    def pack_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """A JSON object of every argument by the name of its parameter, defaults included."""
        return self.pack_call(args, kwargs)[0]

    def pack_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, Arguments]:
        """The same, and the arguments as they are read back."""
        texts: list[str] = []
        values: dict[str, Any] = {}
        for name, value in self._bind(args, kwargs).items():
            text, values[name] = self._coders[name].pack(value)
            texts.append(f"{self._keys[name]}:{text}")
        return f"{{{','.join(texts)}}}", self._spread(values)

    def unpack_arguments(self, text: str) -> Arguments:
        """The arguments of a stored call. Raises `CodecError` if they do not fit the function of today."""
        data = decoded(self._name, text)
        if not isinstance(data, dict):
            raise CodecError(self._name, f"the stored arguments are {show(data)} and no JSON object")
        unknown = data.keys() - self._parameters.keys()
        if unknown:
            raise CodecError(self._name, f"there is no parameter {show(min(unknown))}, but a value for it is stored")
        values = {name: self._coders[name].read(one) for name, one in data.items()}
        for name, parameter in self._parameters.items():
            if name not in values:
                values[name] = self._absent(parameter)
        return self._spread(values)

    def copy_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments as they will be read, so that caller and callee share nothing that can change.

        Raises `TypeError` if the function cannot be called like this.
        """
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)
        if (not kwargs or all(map(_is_constant, kwargs.values()))) and not self._shares:
            for one in args:
                # A number or None needs no closer look, and every step of every workflow comes by here.
                if type(one) not in _PLAIN and not _is_constant(one):
                    break
            else:
                return args, kwargs
        values = {name: self._coders[name].pack(value)[1] for name, value in self._given(args, kwargs).items()}
        for name, parameter in self._parameters.items():
            if name not in values:
                values[name] = self._absent(parameter)
        return self._spread(values)

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return _hints(self._fn)
        except Exception as error:
            problem = f"its annotations cannot be resolved: {_brief(error)}; import the names at run time too"
            raise CodecError(self._name, problem) from error

    @functools.cached_property
    def _coders(self) -> dict[str, Coder]:
        coders = {}
        for name, parameter in self._parameters.items():
            annotation = self._hints.get(name, Any)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                annotation = GenericAlias(tuple, (annotation, ...))
            elif parameter.kind is Parameter.VAR_KEYWORD:
                annotation = GenericAlias(dict, (str, annotation))
            coders[name] = self._codec.coder(annotation, f"{self._name}: parameter {name!r}")
        return coders

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if not kwargs and len(args) == self._most:
            return dict(zip(self._parameters, args, strict=True))
        bound = self._bound(args, kwargs)
        bound.apply_defaults()
        return bound.arguments

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without those that were left out."""
        return self._bound(args, kwargs).arguments

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        # Python 3.13.0 takes f(first=1) for `def f(first, /, **more)`, and leaves `first` out.
        for name, parameter in self._parameters.items():
            if name not in bound.arguments and parameter.default is Parameter.empty and parameter.kind not in _VARIABLE:
                raise TypeError(f"{self._name}: missing a required argument: {name!r}")
        return bound

    def _absent(self, parameter: Parameter) -> Any:
        """What a parameter is that a call leaves out, or that a stored call does not know because the code is newer.

        A fresh copy of its default: a list that one run has changed must not be what the next one begins with.
        """
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return ()
        if parameter.kind is Parameter.VAR_KEYWORD:
            return {}
        if parameter.default is Parameter.empty:
            problem = f"parameter {parameter.name!r} has no default, and no value for it is stored"
            raise CodecError(self._name, problem)
        if _is_constant(parameter.default):
            return parameter.default
        try:
            return self._coders[parameter.name].pack(parameter.default)[1]
        except CodecError:
            return fresh(parameter.default)

    def _spread(self, values: Mapping[str, Any]) -> Arguments:
        if self._most >= 0:
            return tuple([values[name] for name in self._parameters]), {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                args.extend(values[name])
            elif parameter.kind is Parameter.VAR_KEYWORD:
                kwargs.update(values[name])
            elif parameter.kind is Parameter.KEYWORD_ONLY:
                kwargs[name] = values[name]
            else:
                args.append(values[name])
        return tuple(args), kwargs


def payload_size(text: str) -> int:
    """How many bytes a text takes in a store."""
    return len(text) if text.isascii() else len(text.encode())


# --- functions and their annotations ------------------------------------------------------------------------------


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except ValueError:
        # Some built-in functions do not say; Python itself will check the call.
        return inspect.signature(lambda *args, **kwargs: None)


def _hints(fn: Any) -> dict[str, Any]:
    fn = inspect.unwrap(fn)
    if isinstance(fn, functools.partial):
        return _hints(fn.func)
    if isinstance(fn, type):
        made: Any = fn
        return {**get_type_hints(made.__init__), "return": fn}
    return get_type_hints(fn if inspect.isroutine(fn) else type(fn).__call__)


# --- small helpers ------------------------------------------------------------------------------------------------


def _is_constant(value: Any) -> bool:
    """Whether a value is a scalar that JSON can hold: nobody can change it, so it may be shared."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_unicode(value)
    return math.isfinite(value) if kind is float else kind in SCALARS


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decoded(where: str, text: str, source: str = "stored") -> Any:
    """The data of a JSON text. Raises `CodecError`."""
    try:
        return decode(text)
    except Exception as error:
        raise CodecError(where, f"the {source} text {show(text)} is no JSON: {_brief(error)}") from error


def _name(annotation: Any) -> str:
    """An annotation as people write it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    return show(annotation).replace("typing.", "")


def _secret(value: Any) -> str | None:
    """Why a value is refused that has a secret in it."""
    try:
        kind = secret_in(value)
    except Exception:
        # A value that does not let itself be looked into.
        return None
    return None if kind is None else f"it holds a {kind}: {SECRETS}"


def _detail(error: Exception) -> str:
    """What an error adds to a refusal. The library underneath says nothing that helps."""
    if isinstance(error, Misfit):
        return f": {error}"
    return "" if type(error).__module__.partition(".")[0] == "cattrs" else f": {_brief(error)}"


def _brief(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it contains itself or is nested too deeply"
    try:
        text = str(error)
    except Exception:
        text = "?"
    if (unknown := _NOT_JSON.fullmatch(text)) is not None:
        return f"{unknown[1]} is not JSON; {STORABLE}"
    return f"{type(error).__name__}: {text[:300]}"
