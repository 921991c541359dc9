"""Coders of annotations and of functions: signatures, defaults, stored texts that do not fit."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Awaitable, Callable, Generator
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import CodecError
from durable.model import codec as codec_module
from durable.model.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping as OnlyForTheChecker

T = TypeVar("T")
CODEC = Codec()
Durable = Generator[Any, None, T]


@attrs.frozen
class Order:
    id: int
    day: date
    items: tuple[str, ...] = ()


ORDER = Order(1, date(2024, 1, 1), ("a",))
ORDER_TEXT = '{"id":1,"day":"2024-01-01","items":["a"]}'


def simple(order: Order, count: int = 1) -> Order: ...  # type: ignore[empty-body]
def positional(a: int, b: date = date(2024, 1, 1), /, c: str = "c") -> None: ...
def everything(a: int, /, b: date, *rest: date, c: float = 0.5, d: set[int], **more: date) -> list[date]: ...  # type: ignore[empty-body]
def bare(a, b=None): ...  # type: ignore[no-untyped-def]
def nothing() -> None: ...
def unresolvable(a: OnlyForTheChecker[str, int]) -> None: ...
def unstorable(a: Callable[[], int]) -> Callable[[], int]: ...  # type: ignore[empty-body]


def generator(order: Order) -> Durable[Order]:
    yield
    return order


def plain_generator(order: Order) -> Durable[T]:
    yield
    raise AssertionError


async def coroutine(order: Order) -> date:
    return order.day


def awaitable(order: Order) -> Awaitable[date]:
    return coroutine(order)


@functools.wraps(simple)
def wrapped(*args: Any, **kwargs: Any) -> Any: ...


class Callables:
    def __init__(self, day: date) -> None:
        self.day = day

    def __call__(self, day: date) -> date:
        return day

    def method(self, day: date) -> date:
        return day

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # to show that the codec does without


DAY = date(2024, 1, 1)
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (nothing, (), {}, "{}"),
    (simple, (ORDER,), {}, f'{{"order":{ORDER_TEXT},"count":1}}'),
    (simple, (ORDER, 2), {}, f'{{"order":{ORDER_TEXT},"count":2}}'),
    (simple, (), {"count": 2, "order": ORDER}, f'{{"order":{ORDER_TEXT},"count":2}}'),
    (wrapped, (ORDER, 2), {}, f'{{"order":{ORDER_TEXT},"count":2}}'),
    (positional, (1,), {}, '{"a":1,"b":"2024-01-01","c":"c"}'),
    (everything, (1, DAY), {"d": {2, 1}}, '{"a":1,"b":"2024-01-01","rest":[],"c":0.5,"d":[1,2],"more":{}}'),
    (
        everything, (1, DAY, DAY), {"d": set(), "a": DAY, "x": DAY},
        '{"a":1,"b":"2024-01-01","rest":["2024-01-01"],"c":0.5,"d":[],"more":{"a":"2024-01-01","x":"2024-01-01"}}',
    ),
    (bare, ([1],), {}, '{"a":[1],"b":null}'),
    (functools.partial(simple, count=3), (ORDER,), {}, f'{{"order":{ORDER_TEXT},"count":3}}'),
    (Callables(DAY), (DAY,), {}, '{"day":"2024-01-01"}'),
    (Callables(DAY).method, (DAY,), {}, '{"day":"2024-01-01"}'),
    (Callables, (DAY,), {}, '{"day":"2024-01-01"}'),
    (max, (1, 2), {"default": 3}, '{"args":[1,2],"kwargs":{"default":3}}'),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "args", "kwargs", "text"), CALLS)
def test_arguments(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    """Arguments are stored by name with the defaults, and the call that is read back means the same."""
    coder = CODEC.function(fn, "activity f")
    coder.check(args, kwargs)
    assert coder.pack_arguments(args, kwargs) == text
    again = coder.unpack_arguments(text)
    assert coder.pack_arguments(*again) == text
    assert coder.copy_arguments(*again) == again


def test_arguments_are_spread_by_kind() -> None:
    """Positional-only, variadic and keyword-only parameters get their values back in their own way."""
    coder = CODEC.function(everything, "f")
    text = '{"a":1,"b":"2024-01-01","rest":["2024-01-01"],"c":0.5,"d":[1],"more":{"a":"2024-01-01"}}'
    assert coder.unpack_arguments(text) == ((1, DAY, DAY), {"c": 0.5, "d": {1}, "a": DAY})


def test_newer_code_older_call() -> None:
    """A parameter that a stored call does not know gets its default, or nothing if it is variadic."""
    assert CODEC.function(simple, "f").unpack_arguments(f'{{"order":{ORDER_TEXT}}}') == ((ORDER, 1), {})
    stored = '{"a":1,"b":"2024-01-01","d":[]}'
    assert CODEC.function(everything, "f").unpack_arguments(stored) == ((1, DAY), {"c": 0.5, "d": set()})


@pytest.mark.parametrize(("text", "says"), [
    ("", "JSON"), ("{", "JSON"), ("[]", "not a JSON object"), ("5", "not a JSON object"),
    ("{}", "'order' has no default"),
    (f'{{"order":{ORDER_TEXT},"colour":1}}', "no parameter 'colour'"), ('{"order":5}', "parameter 'order'"),
    (f'{{"order":{ORDER_TEXT},"count":"x"}}', "parameter 'count'"), ("\ud800", "JSON"),
])  # fmt: skip
def test_stored_arguments_that_do_not_fit(text: str, says: str) -> None:
    """A stored call that no longer fits its function is a `CodecError` that names the place."""
    with pytest.raises(CodecError, match="workflow checkout") as caught:
        CODEC.function(simple, "workflow checkout").unpack_arguments(text)
    assert says in str(caught.value)


def test_refused_argument_names_function_and_parameter() -> None:
    """A value that cannot be stored is reported with its function and parameter."""
    coder = CODEC.function(simple, "workflow checkout")
    for refuse in (coder.pack_arguments, coder.copy_arguments):
        with pytest.raises(CodecError) as caught:
            refuse((object(),), {})
        assert caught.value.where == "workflow checkout: parameter 'order'"


@pytest.mark.parametrize(("fn", "args", "kwargs"), [
    (simple, (), {}), (simple, (ORDER, 1, 2), {}), (simple, (ORDER,), {"order": ORDER}), (simple, (ORDER,), {"x": 1}),
    (positional, (), {"a": 1}), (everything, (1, DAY), {}), (nothing, (1,), {}),
])  # fmt: skip
def test_check_refuses(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A call that Python would not accept is a plain `TypeError` that names the function."""
    with pytest.raises(TypeError, match="activity charge: ") as caught:
        CODEC.function(fn, "activity charge").check(args, kwargs)
    assert type(caught.value) is TypeError


def test_copies_share_nothing() -> None:
    """Mutable arguments are copied; constants are passed on as they are."""
    coder = CODEC.function(bare, "f")
    value = [1, [2]]
    (copied, default), _ = coder.copy_arguments((value,), {})
    assert (copied, default) == (value, None)
    assert copied is not value
    assert copied[1] is not value[1]
    args, kwargs = (1, "ä"), {"b": 1.5}
    assert coder.copy_arguments(args[:1], kwargs) == (args[:1], kwargs)
    assert coder.copy_arguments(args, {})[0] is args


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", b"", object()])
def test_copy_refuses(value: Any) -> None:
    """The fast way of copying does not accept anything that cannot be stored."""
    with pytest.raises(CodecError, match="parameter 'a'"):
        CODEC.function(bare, "f").copy_arguments((value,), {})


@pytest.mark.parametrize(("fn", "value", "text"), [
    (simple, ORDER, ORDER_TEXT), (generator, ORDER, ORDER_TEXT), (plain_generator, [1], "[1]"),
    (coroutine, DAY, '"2024-01-01"'), (awaitable, DAY, '"2024-01-01"'), (bare, {"a": 1}, '{"a":1}'),
    (nothing, None, "null"), (max, 5, "5"), (Callables(DAY).method, DAY, '"2024-01-01"'),
])  # fmt: skip
def test_result(fn: Callable[..., Any], value: Any, text: str) -> None:
    """The result is coded by the final return type, whatever kind of function it is."""
    coder = CODEC.function(fn, "activity f").result
    assert coder.where == "activity f: result"
    assert coder.pack(value) == (text, value)
    assert coder.unpack(text) == value


def test_annotations_that_cannot_be_used() -> None:
    """Annotations are read when they are needed, and a useless one is reported with its function."""
    coder = CODEC.function(unresolvable, "activity f")
    coder.check((1,), {})
    with pytest.raises(CodecError, match="activity f: its annotations cannot be resolved: NameError"):
        coder.pack_arguments((1,), {})
    with pytest.raises(CodecError, match=r"activity f: result: .* cannot be stored"):
        _ = CODEC.function(unstorable, "activity f").result


def test_coders_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coders are cached for each annotation or function and name, within a bound."""
    codec = Codec()
    assert codec.coder(list[int], "a") is codec.coder(list[int], "a")
    assert codec.coder(list[int], "a") is not codec.coder(list[int], "b")
    assert codec.function(simple, "a") is codec.function(simple, "a")
    unhashable = Callables(DAY)
    assert codec.function(unhashable, "a") is not codec.function(unhashable, "a")
    monkeypatch.setattr(codec_module, "CACHED_MAX", 10)
    first = codec.coder(int, "0")
    for number in range(20):
        codec.coder(int, str(number))
    assert codec.coder(int, "0") is not first


BAD_TEXTS: list[Any] = [
    "", "{", "nul", "NaN", "Infinity", "[1", '"\ud800"', "\x80\x04K\x05.", "[" * 100_000,
    '{"$type":"os.system","value":1}',
    '{"$type":"Other","value":{}}', '{"$type":"date"}', '{"$type":["a"],"value":1}',
    "null", "{}", "[]", None, b"\x80", 5,
    '{"$codec":99}',
]  # fmt: skip


@pytest.mark.parametrize("annotation", [Order, date | Order, dict[int, Order], list[Order], tuple[int, Order], bytes])
@pytest.mark.parametrize("text", BAD_TEXTS)
def test_bad_texts(annotation: Any, text: Any) -> None:
    """A stored text that does not fit is a `CodecError`, unless the value is an empty collection."""
    coder = CODEC.coder(annotation, "here")
    if (annotation, text) in ((dict[int, Order], "{}"), (list[Order], "[]")):
        assert not coder.unpack(text)
        return
    with pytest.raises(CodecError) as caught:
        coder.unpack(text)
    assert caught.value.where == "here"
    assert len(caught.value.problem) < 1_000


@given(st.text() | st.from_regex(r'\{"id":[^,]{0,5},"day":"[-0-9]{0,10}"\}'))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes `unpack` raise anything but a `CodecError`."""
    for annotation in (Order, list[Order | date], int, Any):
        with contextlib.suppress(CodecError):
            CODEC.coder(annotation, "here").unpack(text)


def test_extra_fields_are_ignored() -> None:
    """Data of an older class with an additional field is read by the class of today."""
    assert CODEC.coder(Order, "").unpack('{"id":1,"day":"2024-01-01","gone":1}') == Order(1, DAY)


@attrs.define
class Basket:
    """A mutable value."""

    items: list[int] = attrs.field(factory=list)


MARKER, LOCKED = object(), Basket([threading.Lock()])  # type: ignore[list-item]  # what has no copy


def odd_defaults(
    a: Any = set(),  # noqa: B006
    b: Any = (1, []),
    c: Any = Basket(),  # noqa: B008
    d: Any = MARKER,
    e: Any = LOCKED,
) -> None:
    """Defaults that no annotation says how to store."""


def test_default_that_cannot_be_stored_is_fresh() -> None:
    """A mutable default is not shared between calls; a marker, or what cannot be copied, stays the same object."""
    coder = Codec().function(odd_defaults, "odd")
    reads: tuple[Callable[[], Any], ...] = (
        lambda: coder.unpack_arguments("{}"),
        lambda: coder.copy_arguments((), {}),
    )
    for read in reads:
        for _ in range(2):
            (a, b, c, d, e), _more = read()
            assert (a, b, c) == (set(), (1, []), Basket())
            a.add(1)
            b[1].append(1)
            c.items.append(1)
            assert (d is MARKER, e is LOCKED) == (True, True)
