"""Values written by their own class on one side, and read by an annotation on the other.

A caller that answers a pause or repairs a result has a value, but may not have the code that asks for it. So the caller
writes the value by its own class and sends the JSON text with the name of that class. The side that has the code reads
the text by the annotation, and writes it again in the stored form of that annotation.

The name is only compared, never looked up. It prevents a `dict` from passing as a class that happens to have the same
fields, and it tells the members of a union apart. Plain JSON from people and other programs comes without a name.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import encode

from durable.errors import CodecError
from durable.model.codec import Codec, Coder, decoded
from durable.model.shapes.converter import TAG, VALUE

# As in `sameness`: a narrower number is accepted for a wider annotation.
_PROMOTIONS = frozenset({("bool", "int"), ("bool", "float"), ("int", "float")})


def write_own(codec: Codec, value: Any, where: str) -> str:
    """The JSON text of a value, written by its own class; for a collection, by the classes of its members.

    Raises `CodecError` for a value that cannot be stored.
    """
    try:
        return _write(codec, value, where)
    except RecursionError as error:
        raise CodecError(where, "it contains itself or is nested too deeply") from error


def _write(codec: Codec, value: Any, where: str) -> str:
    """The text of a value. Containers are written member by member, so that each member keeps its own form."""
    kind = type(value)
    if kind in (list, tuple):
        return f"[{','.join([_write(codec, item, where) for item in value])}]"
    if kind in (set, frozenset):
        return f"[{','.join(sorted([_write(codec, item, where) for item in value]))}]"
    if kind is dict:
        pairs = [f"{_key(codec, key, where)}:{_write(codec, item, where)}" for key, item in value.items()]
        return f"{{{','.join(pairs)}}}"
    return codec.coder(kind, where).pack(value)[0]


def _key(codec: Codec, key: Any, where: str) -> str:
    """The key of a JSON object. JSON keys are text, so any other key becomes its JSON text, as in `converter`."""
    text = _write(codec, key, where)
    return text if text.startswith('"') else encode(text).decode()


def read_own(coder: Coder, text: str, written_as: str | None) -> tuple[str, Any]:
    """The stored form and the value of a text from `write_own`, or of plain JSON if `written_as` is None.

    Raises `CodecError` if the text does not fit the annotation.
    """
    data = decoded(coder.where, text, "given")
    value = _read(coder, data, written_as)
    if written_as is not None and not _is_same_class(value, data, written_as):
        problem = f"expected {coder.expects}, got {text:.200} ({written_as}); pass a value of the annotated type"
        raise CodecError(coder.where, problem)
    return coder.pack(value)


def _read(coder: Coder, data: Any, written_as: str | None) -> Any:
    """The value of the data by the annotation, or, if that fails, as the member of a union that `written_as` names."""
    try:
        return coder.read(data, "given")
    except CodecError as misfit:
        if written_as is None:
            raise
        try:
            # The stored form of a union names the member. The class of the value does not know about the union.
            return coder.read({TAG: written_as, VALUE: data})
        except CodecError:
            raise misfit from None


def _is_same_class(value: Any, data: Any, written_as: str) -> bool:
    name = type(value).__name__
    return name == written_as or ((written_as, name) in _PROMOTIONS and bool(value == data))
