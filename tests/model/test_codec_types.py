"""Which values survive being stored under which annotation, and which are refused."""

from __future__ import annotations

import collections
import dataclasses
import enum
import sys
import threading
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NoReturn, NotRequired, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import CodecError
from durable.model.codec import Codec, payload_size
from durable.model.shapes.converter import make_converter
from durable.model.shapes.pydantic_types import is_model
from durable.model.shapes.sameness import difference

T = TypeVar("T")
CODEC = Codec()
BERLIN = ZoneInfo("Europe/Berlin")
UserId = NewType("UserId", int)
Slug = NewType("Slug", str)
Pair = namedtuple("Pair", "a b")  # noqa: PYI024  # the untyped kind is the point


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(str, enum.Enum):  # noqa: UP042  # the old spelling is in use
    ONE = "one"


class Point(NamedTuple):
    x: int
    label: str = ""
    at: date | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[date]


@attrs.frozen
class Card:
    number: str
    amount: Decimal = Decimal(0)


@dataclasses.dataclass
class Transfer:
    iban: str
    when: datetime | None = None
    tags: set[str] = dataclasses.field(default_factory=set)


@attrs.define
class Node:
    name: str
    children: list[Node] = attrs.field(factory=list)
    by_name: dict[int, Node] = attrs.field(factory=dict)
    next: Node | None = None
    either: Node | Card | None = None
    _hidden: int = 0


@attrs.frozen
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Computed:
    a: int
    double: int = dataclasses.field(init=False)
    cache: object = dataclasses.field(init=False, compare=False, default_factory=object)

    def __post_init__(self) -> None:
        self.double = self.a * 2


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="Name")
    when: datetime | None = None
    parts: tuple[int, ...] = ()


class SubModel(Model):
    more: int = 0


@dataclasses.dataclass
class SubTransfer(Transfer):
    more: int = 0


class Text(str):
    __slots__ = ()


class Account(int):
    pass


class BadEq:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]  # as Python does for a class with __eq__


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def round_trip(annotation: Any, value: Any) -> Any:
    """The value as packed, after checking that the text gives it again."""
    coder = CODEC.coder(annotation, "here")
    text, back = coder.pack(value)
    assert difference(coder.unpack(text), back) is None
    return back


NEW_YEAR = datetime(2024, 1, 1, 12, 30, 15, 123456)
SURVIVE: list[tuple[Any, Any]] = [
    (Any, None), (Any, True), (Any, 5), (Any, 1.5), (Any, "ä€😀\0"), (Any, [1, [2, {"a": None}]]),
    (Any, {"$type": "x"}),
    (int, 2**63), (int, -(2**200)), (float, -0.0), (float, 1e308), (str, ""), (bool, False), (None, None),
    (object, [1]), (T, {"a": 1}), (NoReturn, None), (UserId, 5), (Annotated[int, "cents"], 5),
    (list, [1]), (list[int], [1, 2]), (list[Any], [None, "a"]), (Sequence[date], [date(2024, 1, 1)]),
    (Iterable[int], [1]),
    (tuple, (1, "a")), (tuple[int, ...], (1, 2)), (tuple[int, str], (1, "a")), (tuple[()], ()),
    (set[int], {3, 1, 2}), (set, {1}), (frozenset[str], frozenset({"b", "a"})), (AbstractSet[int], {1}),
    (set[tuple[int, str]], {(1, "a"), (2, "b")}),
    (dict, {"a": 1}), (dict[str, int], {"b": 1, "a": 2}), (Mapping[str, date], {"a": date(2024, 1, 1)}),
    (dict[int, str], {1: "a", -5: "b"}), (dict[bool, int], {True: 1, False: 0}), (dict[float, int], {1.5: 1}),
    (dict[Colour, int], {Colour.RED: 1}), (dict[Level, int], {Level.HIGH: 1}), (dict[UUID, int], {UUID(int=5): 1}),
    (dict[tuple[int, str], int], {(1, "a"): 1}), (dict[int | str, int], {5: 1, "5": 2}),
    (dict[Slug, int], {Slug("a"): 1}),
    (dict[Literal["a", "b"], int], {"a": 1}), (dict[date, int], {date(2024, 1, 1): 1}),
    (dict[bytes, int], {b"\xff": 1}),
    (dict[timedelta, int], {timedelta(1): 1}), (dict[str | None, int], {None: 1, "null": 2}),
    (Colour, Colour.RED), (Level, Level.HIGH), (Mode, Mode.FAST), (Rights, Rights.READ | Rights.WRITE),
    (Mixed, Mixed.ONE),
    (Literal["a", 5], 5), (Literal[Colour.RED], Colour.RED),
    (Point, Point(1, "a", date(2024, 1, 1))), (Pair, Pair(1, "a")),
    (Movie, {"title": "M"}), (Movie, {"year": date(1931, 5, 11), "title": "M"}),
    (bytes, b""), (bytes, bytes(range(256))), (UUID, UUID(int=2**100)),
    (Decimal, Decimal("1.00")), (Decimal, Decimal("-1E+400")), (Decimal, Decimal("Infinity")),
    (datetime, NEW_YEAR), (datetime, NEW_YEAR.replace(tzinfo=timezone.utc)),
    (datetime, NEW_YEAR.replace(tzinfo=BERLIN)),
    (datetime, datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)), (datetime, datetime(1, 1, 1)),
    (datetime, datetime(9999, 12, 31, 23, 59, 59, 999999)),
    (datetime, NEW_YEAR.replace(tzinfo=timezone(timedelta(hours=-3, seconds=7)))),
    (date, date(1, 1, 1)), (time, time(1, 2, 3, 4)), (time, time(1, tzinfo=timezone.utc)),
    (timedelta, timedelta.max), (timedelta, timedelta.min), (timedelta, timedelta(microseconds=-1)),
    (int | str | None, "a"), (int | str | None, None), (int | str, True), (float | str, 5), (Any | int, [1]),
    (date | None, None), (date | None, date(2024, 1, 1)), (list[int] | None, [1]), (UserId | None, 5),
    (Literal["a"] | int, "a"), (Literal["a"] | date, date(2024, 1, 1)), (Literal["a"] | None, "a"),
    (Card | Transfer, Card("4111")), (Card | Transfer | None, None), (Card | str, "4111"), (str | datetime, NEW_YEAR),
    (list[Card | Transfer], [Card("1"), Transfer("2", NEW_YEAR)]), (str | Sequence[str], ["a"]),
    (Movie | int, {"title": "M"}),
    (int | dict[int, date], {5: date(2024, 1, 1)}), (AbstractSet[int] | int, {1}),
    (frozenset[int] | set[int], frozenset({1})),
    (Colour | Level, Level.LOW), (Model | Card, Model(Name="a")), (Annotated[Card, 1] | Transfer, Card("1")),
    (Card, Card("4111", Decimal("9.99"))), (Transfer, Transfer("DE1", NEW_YEAR, {"b", "a"})), (Computed, Computed(2)),
    (Node, Node("a", [Node("b")], {1: Node("c")}, Node("d"), Card("1"), 5)), (Node, Node("a", either=Node("b"))),
    (Box[int], Box(5)), (Box[date], Box(date(2024, 1, 1))), (Box[list[Card]], Box([Card("1")])),
    (Model, Model(Name="a", when=NEW_YEAR, parts=(1, 2))), (list[Model], [Model(Name="a")]),
    (collections.deque[int], collections.deque([1])),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), SURVIVE)
def test_survives(annotation: Any, value: Any) -> None:
    """A value that fits its annotation comes back equal and of the same type."""
    back = round_trip(annotation, value)
    assert type(back) is type(value)
    assert difference(value, back) is None


@pytest.mark.parametrize(("annotation", "value", "expected"), [
    (float, 1, 1.0), (int, True, 1), (float, True, 1.0), (list[float], [1, 2.5], [1.0, 2.5]),
    (Box[float], Box(3), Box(3.0)),
    (set[float], {1}, {1.0}), (dict[int, int], {True: 1}, {1: 1}),
])  # fmt: skip
def test_promotes(annotation: Any, value: Any, expected: Any) -> None:
    """A narrower number comes back as the wider annotated type, as typing allows."""
    assert difference(expected, round_trip(annotation, value)) is None


def cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def node_cycle() -> Node:
    node = Node("a")
    node.children.append(node)
    return node


NAN, INF = float("nan"), float("inf")
REFUSED: list[tuple[Any, Any, str]] = [
    (str, "\ud800", "surrogate"), (Any, ["\udfff"], "surrogate"), (dict[str, int], {"\ud800": 1}, "surrogate"),
    (Any, sys.stdout, "not plain JSON"), (Any, threading.Lock(), "not plain JSON"),
    (Any, (x for x in "a"), "not plain JSON"),
    (Any, lambda: 0, "not plain JSON"), (list[int], (x for x in [1]), "came back as"), (Any, object, "not plain JSON"),
    (float, NAN, "NaN"), (float, INF, "NaN"), (Any, -INF, "Infinity"), (list[float], [NAN], "NaN"),
    (Any, [INF], "Infinity"),
    (Decimal, Decimal("NaN"), "came back"), (Decimal, Decimal("sNaN"), "InvalidOperation"), (float | None, NAN, "NaN"),
    (float, 2**53 + 1, "came back"), (float, 10**400, "OverflowError"), (int, 10**5000, "digits"),
    (Any, {1: 2}, "int"), (Any, {1: 2, "1": 3}, "came back"), (dict[str, int], {1: 2}, "came back"),
    (Any, {(1, 2): 3}, "JSON"), (dict, {None: 1}, "keys"),
    (Account, Account(7), "Account"), (dict[int, str], {"1": "a"}, "str"),
    (Any, (1, 2), "tuple"), (list[int], (1, 2), "tuple"), (Sequence[int], (1,), "tuple"),
    (tuple[int, ...], [1], "list"),
    (tuple[int, str], (1,), "ValueError"), (Any, {1}, "set"), (set[int], frozenset({1}), "frozenset"),
    (list[str], "ab", "str"),
    (Any, b"a", "bytes"), (bytes, bytearray(b"a"), "bytearray"), (bytes, "a", "bytes"), (Any, NEW_YEAR, "datetime"),
    (date, NEW_YEAR, "date"), (datetime, date(2024, 1, 1), "date"), (Any, UUID(int=1), "UUID"),
    (UUID, str(UUID(int=1)), "str"),
    (Decimal, 5, "int"), (Any, Decimal(1), "Decimal"), (Any, Colour.RED, "Colour"), (Colour, "red", "red"),
    (Level, 1, "int"), (int, Level.LOW, "Level"), (str, Mode.FAST, "Mode"), (Literal["a"], "b", "Literal"),
    (Any, Text("a"), "Text"), (str, Text("a"), "Text"), (int, Account(1), "Account"),
    (Any, collections.OrderedDict(a=1), "OrderedDict"), (dict[str, int], collections.OrderedDict(a=1), "OrderedDict"),
    (int, 1.0, "float"), (int, "5", "str"), (str, 5, "int"), (str, None, "None"), (bool, 1, "int"), (None, 5, "5"),
    (float, "1.5", "str"), (list[int], ["5"], "str"), (list[int], None, "NoneType"),
    (Transfer, SubTransfer("a"), "SubTransfer"), (Model, SubModel(Name="a"), "SubModel"),
    (Card, Transfer("a"), "Card"),
    (Card | Transfer, SubTransfer("a"), "not one of the types"), (Card | Transfer, 5, "not one of the types"),
    (Literal["a"] | int, "b", "not one of the types"),
    (Any, Card("1"), "Card"), (Any, Model(Name="a"), "Model"), (Box[int], Box("a"), "int"), (Movie, {}, "title"),
    (Model, Model.model_construct(name=5), ""), (Any, cycle(), "contains itself"),
    (list[Any], cycle(), "contains itself"),
    (Node, node_cycle(), "contains itself"), (Any, deep(10_000), "nested too deeply"), (Any, BadEq(), "BadEq"),
    (Any, BadRepr(), "BadRepr"), (str, "a" * 10_000_000 + "\ud800", "surrogate"), (Pair, (1, 2), "tuple"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "says"), REFUSED, ids=range(len(REFUSED)))
def test_refused(annotation: Any, value: Any, says: str) -> None:
    """A value that would come back different is refused with a short text that says why and where."""
    with pytest.raises(CodecError) as caught:
        CODEC.coder(annotation, "activity a: result").pack(value)
    assert caught.value.where == "activity a: result"
    assert says in caught.value.problem
    assert len(caught.value.problem) < 1_000


class Stubborn:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        raise Rude

    __hash__ = None  # type: ignore[assignment]  # as Python does for a class with __eq__


def test_own_hooks_and_bad_equality() -> None:
    """A converter of the user's own is used as it is, and an `__eq__` that raises is contained."""
    converter = make_converter()
    converter.register_unstructure_hook(Stubborn, lambda stubborn: stubborn.value)
    converter.register_structure_hook(Stubborn, lambda data, _: Stubborn(data))
    coder = Codec(converter).coder(Stubborn, "here")
    with pytest.raises(CodecError, match=r"Rude: \?"):
        coder.pack(Stubborn(5))


@pytest.mark.parametrize("annotation", [
    threading.Lock, list[int] | list[str], Box[int] | Box[str] | None, Literal[Colour.RED] | int | date,
    list[threading.Thread],
    "Unknown", 5, Box,
])  # fmt: skip
def test_unsupported_annotation(annotation: Any) -> None:
    """An annotation that cannot be stored is refused when the coder is made."""
    with pytest.raises(CodecError, match=r"here: .* cannot be stored"):
        CODEC.coder(annotation, "here")


def test_equal_sets_equal_texts() -> None:
    """Equal sets give equal texts, whatever their order in memory."""
    coder = CODEC.coder(set[str], "here")
    words = [str(number) for number in range(100)]
    backwards = words[::-1]
    assert coder.pack(set(words))[0] == coder.pack(set(backwards))[0]


def test_texts_are_readable() -> None:
    """The stored form is plain JSON; only members of a mixed union carry a tag."""
    assert CODEC.coder(Card | Transfer, "").pack(Card("1"))[0] == '{"$type":"Card","value":{"number":"1","amount":"0"}}'
    assert CODEC.coder(timedelta, "").pack(timedelta(seconds=1))[0] == "1000000"
    assert CODEC.coder(dict[int, str], "").pack({1: "a"})[0] == '{"1":"a"}'


def test_nothing_is_shared() -> None:
    """Changing a value after it was packed changes nothing that was packed."""
    value = {"a": [1]}
    text, back = CODEC.coder(dict[str, list[int]], "").pack(value)
    value["a"].append(2)
    assert (text, back) == ('{"a":[1]}', {"a": [1]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_any_json_survives(value: Any) -> None:
    """Whatever JSON can hold survives without an annotation."""
    assert difference(value, round_trip(Any, value)) is None


def test_pydantic_is_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pydantic in the process no class is taken for one of its models."""
    assert is_model(Model)
    monkeypatch.delitem(sys.modules, "pydantic")
    assert not is_model(Model)


def test_payload_size() -> None:
    """The size of a payload is counted in bytes of UTF-8."""
    assert [payload_size(text) for text in ("", "abc", "ä€😀")] == [0, 3, 9]
