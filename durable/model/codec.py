"""Values as JSON text, by annotation. Each value is written, read back and compared before it is accepted.

A `Coder` handles one annotation, a `FunctionCoder` the parameters and the result of one function. A `Codec` makes both
and caches them. This module knows functions and JSON text. It knows nothing about the purpose of a function (activity,
workflow, event): callers pass the words for that, for use in errors. Every failure is a `CodecError` that says where.
Nothing here is pickled, imported or looked up by a stored name.
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

# A full cache is emptied. A program may make new functions without end, as in `call(lambda: ...)`.
CACHED_MAX = 10_000
# The message of msgspec for a class that it cannot encode.
_NOT_JSON = re.compile(r"Encoding objects of type (\S+) is unsupported")
# Immutable scalars whose every value can be stored. A str may hold a surrogate, a float may be NaN.
_PLAIN = SCALARS - {str, float}


class Codec:
    """Makes coders for annotations and functions, and caches them."""

    def __init__(self, converter: Converter | None = None) -> None:
        self._converter = make_converter() if converter is None else converter
        self._coders: dict[tuple[Any, str], Coder] = {}
        self._functions: dict[tuple[Any, str], FunctionCoder] = {}

    def coder(self, annotation: Any, where: str) -> Coder:
        """The coder of an annotation. `where` starts its errors. Raises `CodecError` if the type cannot be stored."""
        return _cached(self._coders, (annotation, where), lambda: Coder(annotation, where, self._converter))

    def function(self, fn: Callable[..., Any], name: str) -> FunctionCoder:
        """The coder of a function's parameters and result. `name` describes it in errors, as in `activity charge`."""
        return _cached(self._functions, (fn, name), lambda: FunctionCoder(fn, name, self))


def _cached(cache: dict[tuple[Any, str], V], key: tuple[Any, str], make: Callable[[], V]) -> V:
    try:
        coder = cache.get(key)
    except TypeError:
        return make()
    if coder is None:
        coder = make()
        if len(cache) >= CACHED_MAX:
            cache.clear()
        cache[key] = coder
    return coder


class Coder:
    """Values of one annotation to JSON text and back."""

    __slots__ = ("_annotation", "_quick", "_read", "_write", "where")

    def __init__(self, annotation: Any, where: str, converter: Converter) -> None:
        """Build the hooks of an annotation. Raises `CodecError` if its type cannot be stored."""
        self.where = where
        if isinstance(annotation, type) and issubclass(annotation, Unfinished):
            # Accept the annotation, so that storing a value fails with its remedy. That says more than a refused type.
            annotation = Any
        self._annotation = annotation
        try:
            self._annotation = annotation = unwrap(annotation)
            # Values of these classes are their own JSON form: nothing to convert, and nothing to compare.
            self._quick = scalar_kinds(annotation)
            self._write = converter.get_unstructure_hook(annotation)
            self._read = converter.get_structure_hook(annotation)
        except Exception as error:
            raise CodecError(where, f"{_name(annotation)} cannot be stored: {_brief(error)}; {STORABLE}") from error

    def pack(self, value: Any) -> tuple[str, Any]:
        """The JSON text of a value, and the value as a replay will read it. Raises `CodecError` if it would change."""
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
        """The annotation as people write it."""
        return _name(self._annotation)

    def unpack(self, text: str) -> Any:
        """The value of a JSON text. Raises `CodecError`, and nothing else."""
        return self.read(decoded(self.where, text))

    def read(self, data: Any, source: str = "stored") -> Any:
        """The value of JSON data. `source` says in errors where the data is from. Raises `CodecError`, nothing else."""
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
            # For a value of the wrong class the detail is an accident of the writer, or repeats the problem.
            detail = ""
        return f"{problem}{detail}; pass a value of the annotated type, or change the annotation"


# What to do about a value that comes back changed.
_ANNOTATE = "annotate it with its actual type"
_KEEP = "its serializer loses something; keep the lost part, such as a time zone, in a separate field"

# Kinds of parameters that a call may omit.
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class FunctionCoder:
    """The arguments of one function as JSON text and back, and the coder of its result.

    Annotations are resolved on first use: a decorator runs before the names further down in the module exist.
    """

    def __init__(self, fn: Callable[..., Any], name: str, codec: Codec) -> None:
        self._fn = fn
        self._name = name
        self._codec = codec
        self._signature = _signature(fn)
        self._parameters = self._signature.parameters
        simple = all(parameter.kind is Parameter.POSITIONAL_OR_KEYWORD for parameter in self._parameters.values())
        self._most = len(self._parameters) if simple else -1
        self._keys = {name: encode(name).decode() for name in self._parameters}
        self._least = sum(parameter.default is Parameter.empty for parameter in self._parameters.values())
        # Whether calls that omit an argument would share a mutable default.
        defaults = [
            parameter.default for parameter in self._parameters.values() if parameter.default is not Parameter.empty
        ]
        self._shares = not all(map(_is_constant, defaults))

    @functools.cached_property
    def result(self) -> Coder:
        """The coder of the value that the function returns, also as a generator or coroutine. Raises `CodecError`."""
        annotation = unwrap(self._hints.get("return", Any))
        if get_origin(annotation) in (abc.Generator, abc.Coroutine, abc.Awaitable):
            annotation = get_args(annotation)[-1]
        return self._codec.coder(annotation, f"{self._name}: result")

    @functools.cached_property
    def first(self) -> Coder | None:
        """The coder of the first parameter; None if that has no annotation. Raises `CodecError`."""
        name = next(iter(self._parameters), None)
        return self._coders[name] if name is not None and name in self._hints else None

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raises `TypeError` if the function does not accept these arguments."""
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)

    def pack_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """A JSON object with every argument by the name of its parameter, including defaults."""
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
        """The arguments of a stored call. Raises `CodecError` if they do not fit the current function.

        A parameter that was added since gets its default. A stored argument without a parameter is an error.
        """
        data = decoded(self._name, text)
        if not isinstance(data, dict):
            raise CodecError(self._name, f"the stored arguments are {show(data)}, not a JSON object")
        unknown = data.keys() - self._parameters.keys()
        if unknown:
            raise CodecError(self._name, f"there is no parameter {show(min(unknown))}, but a value for it is stored")
        values = {name: self._coders[name].read(argument) for name, argument in data.items()}
        for name, parameter in self._parameters.items():
            if name not in values:
                values[name] = self._absent(parameter)
        return self._spread(values)

    def copy_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments as a replay reads them, so that nothing mutable is shared. Raises `TypeError`, `CodecError`."""
        if kwargs or not self._least <= len(args) <= self._most:
            self._bind(args, kwargs)
        if (not kwargs or all(map(_is_constant, kwargs.values()))) and not self._shares:
            for value in args:
                # Numbers and None skip the slower check: every step of every workflow runs this loop.
                if type(value) not in _PLAIN and not _is_constant(value):
                    break
            else:
                return args, kwargs
        values = {name: self._coders[name].pack(value)[1] for name, value in self._passed(args, kwargs).items()}
        for name, parameter in self._parameters.items():
            if name not in values:
                values[name] = self._absent(parameter)
        return self._spread(values)

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return _hints(self._fn)
        except Exception as error:
            problem = f"its annotations cannot be resolved: {_brief(error)}; import their names at run time too"
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

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without those that it omits."""
        return self._bound(args, kwargs).arguments

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        # Python 3.13.0 accepts f(first=1) for `def f(first, /, **more)`, and does not bind `first`.
        for name, parameter in self._parameters.items():
            if name not in bound.arguments and parameter.default is Parameter.empty and parameter.kind not in _VARIABLE:
                raise TypeError(f"{self._name}: missing a required argument: {name!r}")
        return bound

    def _absent(self, parameter: Parameter) -> Any:
        """The value of a parameter that a call omits, or that was added after the call was stored.

        It is a fresh copy of the default: a list that one run has changed must not reach the next run.
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
    """The size of a text in bytes of UTF-8, as `max_payload_bytes` counts it."""
    return len(text) if text.isascii() else len(text.encode())


# --- functions and their annotations ------------------------------------------------------------------------------


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except ValueError:
        # Some built-in functions have no signature. Python itself will check the call.
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
    """Whether a value is a scalar that JSON can hold. It is immutable, so it may be shared."""
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
        raise CodecError(where, f"the {source} text {show(text)} is not JSON: {_brief(error)}") from error


def _name(annotation: Any) -> str:
    """An annotation as people write it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    return show(annotation).replace("typing.", "")


def _secret(value: Any) -> str | None:
    """Why a value that contains a secret is refused; None if it contains none."""
    try:
        kind = secret_in(value)
    except Exception:
        # The value raises when its parts are read.
        return None
    return None if kind is None else f"it holds a {kind}: {SECRETS}"


def _detail(error: Exception) -> str:
    """The part of an error that helps in a refusal. Messages of cattrs do not, so they are left out."""
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
