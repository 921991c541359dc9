"""Tables: many rows are checked together, with the same result as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from durable.backends.sql import rows
from durable.backends.sql.tables import Row
from durable.errors import CodecError

# Enough rows to be checked column by column.
COUNT = 40


def history(count: int = COUNT) -> list[Row]:
    """The rows of a history. Some entries are failed attempts, with the time of the next one."""
    return [
        (
            7,
            seq,
            str(seq),
            "activity",
            "step",
            "retry" if seq % 3 else "ok",
            "1",
            1_000 + seq,
            5_000 if seq % 3 else None,
        )
        for seq in range(1, count + 1)
    ]


def spoilt(place: int, value: object) -> list[Row]:
    """The same rows, with another value in one column of the twentieth."""
    rows_read = history()
    row = list(rows_read[19])
    row[place] = value
    rows_read[19] = tuple(row)
    return rows_read


@pytest.mark.parametrize("count", [0, 1, 15, 16, COUNT])
def test_many_rows_make_the_same_records_as_single_ones(count: int) -> None:
    """However many rows there are, each makes the record that it makes alone."""
    assert rows.HISTORY.records(history(count)) == [rows.HISTORY.record(row) for row in history(count)]


def test_an_empty_optional_column_is_sound() -> None:
    """A column may be NULL in every row if it is optional."""
    plain = [(*row[:-1], None) for row in history()]
    assert rows.HISTORY.records(plain) == [rows.HISTORY.record(row) for row in plain]


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (1, "20", "seq is str"),
        (1, None, "seq is NoneType"),
        (1, -1, "seq -1 is out of range"),
        (2, b"\xff", "position is text that is not UTF-8"),
        (3, "no such kind", "'no such kind' is unknown"),
        (7, 1 << 62, "out of range"),
        (7, -(1 << 62), "out of range"),
        (8, 1.5, "retry_at is float"),
        (8, 1 << 62, "out of range"),
    ],
)
def test_a_damaged_row_among_many_is_named(place: int, value: object, problem: str) -> None:
    """One damaged value among many rows raises the error that the row raises alone."""
    damaged: Sequence[Row] = spoilt(place, value)
    with pytest.raises(CodecError, match=problem) as alone:
        rows.HISTORY.record(damaged[19])
    with pytest.raises(CodecError, match=problem) as together:
        rows.HISTORY.records(damaged)
    assert str(together.value) == str(alone.value)
