"""A table of SQL whose rows are records: its columns, what each may hold, and the check of a row that was read.

Knows columns and nothing of what they mean. Types and ranges are checked although the tables are STRICT: a damaged page
can hold anything, and one number that no calendar has must not stop the whole engine later on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from durable.errors import CodecError
from durable.model.clock import EARLIEST, LATEST

T = TypeVar("T")
Row = tuple[Any, ...]

# What a column may hold. A count has room to grow: adding one to it must not overflow.
_COUNT_MAX = 1 << 62
_RANGES = {"count": (0, _COUNT_MAX), "instant": (EARLIEST, LATEST)}


@attrs.frozen
class Column:
    """One column: its name, what it holds, and whether it may be NULL. Written `name:kind` or `name:kind?`."""

    name: str
    kind: str
    is_optional: bool

    @classmethod
    def of(cls, text: str) -> Column:
        """The column that a text describes."""
        name, _, kind = text.partition(":")
        return cls(name, kind.removesuffix("?"), kind.endswith("?"))

    def check_type(self, value: object) -> None:
        """Raises `TypeError`."""
        wanted = str if self.kind == "text" else int
        if type(value) is not wanted and not (value is None and self.is_optional):
            # Bytes are also what the connection hands out for text that is not UTF-8.
            found = "text that is not UTF-8 or a BLOB" if isinstance(value, bytes) else type(value).__name__
            raise TypeError(f"{self.name} is {found}")


class Table(Generic[T]):
    """A table whose rows are records of one type. `labels` are the columns that tell a person which row is meant."""

    def __init__(self, name: str, layout: str, labels: tuple[str, ...], build: Callable[[Row], T]) -> None:
        self.name = name
        self._labels = labels
        self._build = build
        self._layout = tuple(map(Column.of, layout.split()))
        self.columns = tuple(column.name for column in self._layout)
        self._select = ", ".join(self.columns)
        ranged = [(place, column) for place, column in enumerate(self._layout) if column.kind in _RANGES]
        self._ranges = [(place, column.name, *_RANGES[column.kind]) for place, column in ranged]
        # The types of rows that were found good. They are few, and looking one up costs less than asking every column.
        self._sound: set[tuple[type, ...]] = set()

    def record(self, row: Row) -> T:
        """The record of a row. Raises `CodecError` when the row does not hold one."""
        try:
            self._check(row)
            return self._build(row)
        except KeyError as error:
            raise CodecError(self.label(row), f"the value {error} is unknown to this version") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise CodecError(self.label(row), str(error)) from error

    def _check(self, row: Row) -> None:
        types = tuple(map(type, row))
        if types not in self._sound:
            for column, value in zip(self._layout, row, strict=True):
                column.check_type(value)
            self._sound.add(types)
        for place, name, lowest, highest in self._ranges:
            value = row[place]
            if value is not None and not lowest <= value <= highest:
                raise ValueError(f"{name} {value} is not a number that belongs here")

    def strange(self) -> list[str]:
        """SQL for each thing that `record` refuses in a single column. A comparison takes a third of `typeof`."""
        # SQLite sorts NULL, numbers, texts and BLOBs in this order.
        texts = [f"{column.name} NOT BETWEEN '' AND x''" for column in self._layout if column.kind == "text"]
        ranges = [f"{name} NOT BETWEEN {lowest} AND {highest}" for _, name, lowest, highest in self._ranges]
        fractions = [f"typeof({name}) = 'real'" for _, name, _, _ in self._ranges]
        # Not each by itself: SQLite does not even look whether a column is NULL that is declared NOT NULL.
        missing = " + ".join(f"({column.name} = '')" for column in self._layout if not column.is_optional)
        return [*texts, *ranges, *fractions, f"({missing}) IS NULL"]

    def label(self, row: Row) -> str:
        """The table and what tells the row apart, for messages."""
        return " ".join([self.name, *(f"{name} {row[self.columns.index(name)]!r}" for name in self._labels)])

    def select(self, prefix: str = "") -> str:
        """The columns as SQL."""
        return ", ".join(prefix + column for column in self.columns) if prefix else self._select

    def insert(self, verb: str = "INSERT", *, without: tuple[str, ...] = ()) -> str:
        """The statement that adds a row, perhaps without some columns."""
        columns = [column for column in self.columns if column not in without]
        marks = ", ".join("?" * len(columns))
        return f"{verb} INTO {self.name} ({', '.join(columns)}) VALUES ({marks})"
