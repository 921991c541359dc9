"""A table in SQL whose rows are records: its columns, the values that each may hold, and the check of a row.

Knows columns, and nothing about their meaning. Types and ranges are checked although the tables are STRICT: a damaged
page can hold anything, and one instant outside the calendar must not stop the whole engine later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from durable.errors import CodecError
from durable.model.clock import EARLIEST, LATEST

T = TypeVar("T")
Row = tuple[Any, ...]
Params = dict[str, Any]

# The ranges of the kinds of columns. A count must have room to grow: adding one must not overflow.
_COUNT_MAX = 1 << 62
# So many rows are checked together, column by column.
_MANY = 16
_RANGES = {"count": (0, _COUNT_MAX), "instant": (EARLIEST, LATEST)}


@attrs.frozen
class Column:
    """One column: its name, its kind, and whether it may be NULL. Written `name:kind` or `name:kind?`.

    The kinds are `text`, `int`, `count` (0 to 2**62) and `instant` (an instant that a datetime can hold).
    """

    name: str
    kind: str
    is_optional: bool

    @classmethod
    def of(cls, text: str) -> Column:
        """The column that a text such as `wake_at:instant?` describes."""
        name, _, kind = text.partition(":")
        return cls(name, kind.removesuffix("?"), kind.endswith("?"))

    @property
    def types(self) -> frozenset[type]:
        """The types that a value may have."""
        expected = str if self.kind == "text" else int
        return frozenset({expected, type(None)} if self.is_optional else {expected})

    def check_type(self, value: object) -> None:
        """Check the type of a value. Raises `TypeError`."""
        if type(value) not in self.types:
            # The connection also returns bytes for text that is not UTF-8.
            actual = "text that is not UTF-8 or a BLOB" if isinstance(value, bytes) else type(value).__name__
            raise TypeError(f"{self.name} is {actual}")


class Table(Generic[T]):
    """A table whose rows are records of one type.

    `layout` lists the columns in order, `labels` those that identify a row in messages. `build` makes the record of a
    row whose types and ranges were checked; it may raise `KeyError`, `ValueError` or `TypeError` for other damage.
    """

    def __init__(self, name: str, layout: str, labels: tuple[str, ...], build: Callable[[Row], T]) -> None:
        self.name = name
        self._labels = labels
        self._build = build
        self._layout = tuple(map(Column.of, layout.split()))
        self.columns = tuple(column.name for column in self._layout)
        self._select = ", ".join(self.columns)
        ranged = [(place, column) for place, column in enumerate(self._layout) if column.kind in _RANGES]
        self._ranges = [(place, column.name, *_RANGES[column.kind]) for place, column in ranged]
        self._types = [column.types for column in self._layout]
        # The combinations of types that were checked and accepted. They are few, and one lookup is cheaper than
        # checking every column.
        self._sound: set[tuple[type, ...]] = set()

    def record(self, row: Row) -> T:
        """The record of a row. Raises `CodecError`, which names the table and the row, if the row is damaged."""
        try:
            self._check(row)
            return self._build(row)
        except KeyError as error:
            raise CodecError(self.label(row), f"the value {error} is unknown to this version") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise CodecError(self.label(row), str(error)) from error

    def records(self, fetched: Sequence[Row]) -> list[T]:
        """The records of many rows. Raises `CodecError` for the first damaged one."""
        # If there are many values, checking a whole column takes a fifth of the time of checking them one by one.
        if len(fetched) >= _MANY and self._are_sound(fetched):
            try:
                return list(map(self._build, fetched))
            except (KeyError, ValueError, TypeError, RecursionError):
                pass
        # Row by row, which says what is wrong and in which row.
        return list(map(self.record, fetched))

    def _are_sound(self, fetched: Sequence[Row]) -> bool:
        """Whether all rows have the right types, and all their values are in range."""
        columns = list(zip(*fetched, strict=True))
        if not all(set(map(type, values)) <= types for values, types in zip(columns, self._types, strict=True)):
            return False
        for place, _, lowest, highest in self._ranges:
            values = [value for value in columns[place] if value is not None]
            if values and not lowest <= min(values) <= max(values) <= highest:
                return False
        return True

    def _check(self, row: Row) -> None:
        """Check types, then ranges. Raises `TypeError` or `ValueError`."""
        types = tuple(map(type, row))
        if types not in self._sound:
            for column, value in zip(self._layout, row, strict=True):
                column.check_type(value)
            self._sound.add(types)
        for place, name, lowest, highest in self._ranges:
            value = row[place]
            if value is not None and not lowest <= value <= highest:
                raise ValueError(f"{name} {value} is out of range")

    def strange(self) -> list[str]:
        """SQL conditions that match rows with a value that `record` refuses.

        They use comparisons where they can: a comparison takes a third of the time of `typeof`.
        """
        # SQLite sorts NULL, numbers, texts and BLOBs in this order.
        texts = [f"{column.name} NOT BETWEEN '' AND x''" for column in self._layout if column.kind == "text"]
        ranges = [f"{name} NOT BETWEEN {lowest} AND {highest}" for _, name, lowest, highest in self._ranges]
        fractions = [f"typeof({name}) = 'real'" for _, name, _, _ in self._ranges]
        # Not `IS NULL` for each column: SQLite does not evaluate that for a column declared NOT NULL.
        missing = " + ".join(f"({column.name} = '')" for column in self._layout if not column.is_optional)
        return [*texts, *ranges, *fractions, f"({missing}) IS NULL"]

    def label(self, row: Row) -> str:
        """The table and the identifying columns of a row, for messages."""
        return " ".join([self.name, *(f"{name} {row[self.columns.index(name)]!r}" for name in self._labels)])

    def select(self, prefix: str = "") -> str:
        """The columns as SQL, each after the prefix, such as `w.`."""
        return ", ".join(prefix + column for column in self.columns) if prefix else self._select

    def insert(self, verb: str = "INSERT", *, without: tuple[str, ...] = ()) -> str:
        """The statement that adds a row, without the columns in `without`."""
        columns = [column for column in self.columns if column not in without]
        marks = ", ".join("?" * len(columns))
        return f"{verb} INTO {self.name} ({', '.join(columns)}) VALUES ({marks})"


@attrs.frozen
class Select:
    """A statement, its parameters and the table of its rows. The store binds `:limit`, -1 for all rows."""

    table: Table[Any]
    sql: str
    params: Params
    # None: all rows.
    limit: int | None


def where(terms: Sequence[str]) -> str:
    """The WHERE of these conditions, all of which must hold; the empty text if there are none."""
    return f" WHERE {' AND '.join(terms)}" if terms else ""
