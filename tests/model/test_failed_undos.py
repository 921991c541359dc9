"""Failed undos on errors: reported once, bounded, and kept in the stored form."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import Cancelled, InvalidValue, WorkflowFailed
from durable.model.error_codec import (
    UNDO_LENGTH_MAX,
    UNDOS_MAX,
    failed_undo,
    failed_undos,
    pack_error,
    report_undos,
    undos_summary,
    unpack_error,
)
from durable.model.records import FailedUndo


class Opaque(Exception):
    """Cannot be rebuilt."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


class Odd(Exception):
    """Accepts any attribute, and has its own kind of notes."""

    __notes__ = "none"  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return name


def undo(number: int, message: str = "no") -> FailedUndo:
    """One of several."""
    return failed_undo(str(number), "charge(...)", "refund", ValueError(message))


ERRORS = [ValueError("no"), InvalidValue("what", "problem"), Cancelled("why"), Opaque(code=7), Odd("odd")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_stored_error_keeps_its_failed_undos(error: BaseException) -> None:
    """Failed undos survive the store, whatever the class of the error is and forbids."""
    assert failed_undos(error) == ()
    report_undos(error, [undo(1), undo(2)])
    text = pack_error(error)
    assert undos_summary(text) == (undo(1), undo(2))
    assert failed_undos(unpack_error(text)) == failed_undos(error) == (undo(1), undo(2))
    assert "undo refund of charge(...) at 1 failed: builtins.ValueError: no" in error.__notes__


def test_failed_undo_is_told_once() -> None:
    """A second report appends only what is new."""
    error = ValueError("no")
    error.add_note("mine")
    report_undos(error, [])
    report_undos(error, [undo(1)])
    report_undos(error, [undo(1), undo(2)])
    assert failed_undos(error) == (undo(1), undo(2))
    assert error.__notes__ == ["mine", str(undo(1)), str(undo(2))]


def test_failed_undos_are_those_of_the_cause() -> None:
    """An error that reports another includes that one's failed undos, also through the store; no other error does."""
    inner, outer, unrelated = ValueError("no"), WorkflowFailed("w", "ValueError", "no"), KeyError("x")
    report_undos(inner, [undo(1)])
    outer.__cause__ = inner
    assert failed_undos(outer) == failed_undos(unpack_error(pack_error(outer))) == (undo(1),)
    assert undos_summary(pack_error(outer)) == ()
    inner.__context__ = unrelated
    assert failed_undos(unrelated) == ()
    unrelated.__cause__ = unrelated
    assert failed_undos(unrelated) == ()


def test_failed_undos_are_bounded() -> None:
    """However many undos fail and however long their messages are, the stored error stays small."""
    error = ValueError("no")
    report_undos(error, [undo(number, "x" * 10_000) for number in range(3 * UNDOS_MAX)])
    assert len(failed_undos(error)) == len(error.__notes__) == UNDOS_MAX
    assert all(len(undo.message) <= UNDO_LENGTH_MAX for undo in failed_undos(error))
    assert len(pack_error(error)) < 2 * UNDOS_MAX * UNDO_LENGTH_MAX
