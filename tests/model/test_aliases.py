"""Aliases, types of pydantic and secrets as annotations; and the errors for those that cannot be stored."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, Optional, TypedDict, TypeVar

import attrs
import pydantic
import pydantic.dataclasses
import pytest
from typing_extensions import TypeAliasType

from durable.errors import CodecError
from durable.model.codec import Codec

T = TypeVar("T")
K = TypeVar("K")


class Cat(pydantic.BaseModel):
    """One of two animals."""

    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    """The other."""

    kind: Literal["dog"] = "dog"
    name: str


class Size(enum.Enum):
    """An enum."""

    SMALL = "s"


Granularity = TypeAliasType("Granularity", Literal["word", "segment"])
Animal = TypeAliasType("Animal", Annotated[Cat | Dog, pydantic.Field(discriminator="kind")])
Pair = TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Entry = TypeAliasType("Entry", dict[K, Pair[T]], type_params=(K, T))
Itself = TypeAliasType("Itself", T, type_params=(T,))
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
Scalar = TypeAliasType("Scalar", int | Size)


@pydantic.dataclasses.dataclass
class Part:
    """A dataclass of pydantic."""

    when: Granularity
    animal: Animal


@dataclasses.dataclass
class Message:
    """A plain dataclass with aliases in it."""

    granularities: list[Granularity]
    parts: Sequence[Part] = dataclasses.field(default_factory=list)
    animal: Optional[Animal] = None  # noqa: UP045  # as libraries write it


@attrs.frozen
class Boxed(Generic[T]):
    """A class of attrs with aliases in it."""

    pair: Pair[int]
    data: Json = None


class Keyed(TypedDict):
    """A typed dict with aliases in it."""

    size: Scalar


class Owner(pydantic.BaseModel):
    """A model with aliases in it."""

    pets: list[Animal]


CODEC = Codec()
CAT, DOG = Cat(), Dog(name="Rex")


@pytest.mark.parametrize(("annotation", "value"), [
    (Granularity, "word"), (list[Granularity], ["word"]), (Granularity | None, None),
    (dict[Granularity, int], {"word": 1}),
    (Animal, DOG), (list[Animal], [CAT, DOG]), (Animal | None, CAT), (Animal | int | Scalar, Size.SMALL),
    (Animal | int | Scalar, DOG), (Pair[int], (1, 2)), (list[Pair[Size]], [(Size.SMALL, Size.SMALL)]),
    (Entry[str, bytes], {"a": (b"x", b"y")}), (Itself[Size], Size.SMALL),
    (Json, {"a": [1, {"b": None}]}), (list[Json], ["x", [["y"]]]),
    (Message, Message(["word"], [Part("segment", CAT)], DOG)), (list[Message], [Message([])]),
    (Part, Part("word", DOG)),
    (Boxed[int], Boxed((1, 2), {"a": ["b"]})), (Keyed, {"size": Size.SMALL}), (Owner, Owner(pets=[CAT, DOG])),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")), (pydantic.HttpUrl, pydantic.HttpUrl("https://a.b/c")),
    (list[pydantic.HttpUrl | None], [None, pydantic.HttpUrl("https://a.b/c")]),
], ids=str)  # fmt: skip
def test_alias_is_what_it_stands_for(annotation: Any, value: Any) -> None:
    """An alias works wherever a type does, also generic, nested, in fields and recursive; so do pydantic's types."""
    coder = CODEC.coder(annotation, "here")
    text, back = coder.pack(value)
    assert back == value
    assert coder.unpack(text) == value
    with pytest.raises(CodecError):
        coder.pack(object())


def test_alias_of_an_unknown_name_is_refused() -> None:
    """For an alias with an undefined name in it, the error names the place and the missing name."""
    broken = TypeAliasType("broken", "list[Missing]")  # type: ignore[name-defined]  # noqa: F821
    with pytest.raises(CodecError, match=r"here: broken cannot be stored: NameError: .*Missing"):
        CODEC.coder(broken, "here")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement is new in Python 3.12")
def test_alias_statement_of_python_works() -> None:
    """`type X = ...` is the same as the class of typing_extensions, also for one that contains itself."""
    names: dict[str, Any] = {}
    exec("type Tree[T] = list[Tree[T]] | T\ntype Number = int", names)
    assert CODEC.coder(names["Tree"][int], "here").pack([[1], 2])[1] == [[1], 2]
    assert CODEC.coder(names["Number"], "here").pack(5)[1] == 5


class Login(pydantic.BaseModel):
    """A model that holds a secret."""

    user: str
    password: pydantic.SecretStr | None = None


@dataclasses.dataclass
class Logins:
    """Holds such models."""

    all: list[Login]


LOGIN = Login(user="ann", password="hush")  # type: ignore[arg-type]


@pytest.mark.parametrize(("annotation", "value"), [
    (pydantic.SecretStr, pydantic.SecretStr("hush")), (pydantic.SecretBytes, pydantic.SecretBytes(b"hush")),
    (list[pydantic.SecretStr], [pydantic.SecretStr("hush")]), (Any, pydantic.SecretStr("hush")), (Login, LOGIN),
    (list[Login], [LOGIN]), (Logins, Logins([LOGIN])), (dict[str, Login], {"a": LOGIN}), (pydantic.SecretStr, "hush"),
], ids=str)  # fmt: skip
def test_secret_is_refused_with_the_way_out(annotation: Any, value: Any) -> None:
    """The error says where, that secrets cannot be stored, and what to pass instead; it does not show the secret."""

    def log_in(login: Any) -> None: ...

    log_in.__annotations__["login"] = annotation
    with pytest.raises(CodecError) as caught:
        CODEC.function(log_in, "activity log_in").pack_arguments((value,), {})
    text = str(caught.value)
    assert text.startswith("activity log_in: parameter 'login': ")
    assert "secrets cannot be stored" in text
    assert "pass a reference" in text
    assert value == "hush" or "hush" not in text


def test_model_without_its_secret_is_stored() -> None:
    """An empty field for a secret can be stored."""
    assert CODEC.coder(Login, "here").pack(Login(user="ann"))[1] == Login(user="ann")


class Strange:
    """A class that no converter supports."""


@dataclasses.dataclass
class Holder:
    """A class with a field of an unsupported class."""

    strange: Strange


@pytest.mark.parametrize("annotation", [Strange, list[Strange], Holder, dict[str, Holder | None], Any])
def test_unknown_type_is_named_with_the_way_out(annotation: Any) -> None:
    """The error names function, parameter, type and fix, and never the libraries underneath."""

    def send(what: Any) -> None: ...

    send.__annotations__["what"] = annotation
    with pytest.raises(CodecError) as caught:
        CODEC.function(send, "activity send").pack_arguments((Strange(),), {})
    text = str(caught.value)
    assert text.startswith("activity send: parameter 'what': ")
    assert "Strange" in text
    assert "use JSON types, a dataclass, an attrs class, an enum or a pydantic model" in text
    assert not any(word in text.lower() for word in ("hook", "cattrs", "msgspec", "structure"))
