"""Errors: one tree, fields that stay, and useful messages."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import attrs
import pytest

from durable import errors
from durable.errors import (
    Cancelled,
    DurableError,
    InvariantViolated,
    SessionClosed,
    WorkflowTerminated,
    events,
    pauses,
    schedules,
)

SAMPLES: tuple[tuple[str, Any], ...] = (
    ("str", "sample"), ("timedelta", timedelta(seconds=3)), ("int", 3), ("float", 3.5),
)  # fmt: skip
OUTSIDE = (Cancelled, SessionClosed, InvariantViolated)
NAMES = vars(errors) | vars(events) | vars(pauses) | vars(schedules)
ALL = [cls for cls in NAMES.values() if isinstance(cls, type) and issubclass(cls, BaseException)]
EVERY = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)


def fields_of(cls: Any) -> tuple[Any, ...]:
    """The fields of an error; those without fields take a message."""
    return tuple(attrs.fields(cls)) if attrs.has(cls) else ()


def made(cls: type[BaseException]) -> BaseException:
    """An error of a class, with a value in every field."""
    if cls is WorkflowTerminated:
        return cls("sample", "failed")
    types = [str(field.type) for field in fields_of(cls)]
    return cls(*[next(value for kind, value in SAMPLES if kind in name) for name in types] or ["why"])


@EVERY
def test_error_stands_in_the_tree(cls: type[BaseException]) -> None:
    """Every error is a DurableError, except a bug of ours and those that no `except Exception` may swallow."""
    assert issubclass(cls, DurableError) == (cls not in OUTSIDE)
    assert issubclass(cls, Exception) == (cls not in (Cancelled, SessionClosed))


@EVERY
def test_error_says_what_happened(cls: type[BaseException]) -> None:
    """Every error has a message, and shows each text of its fields in it."""
    error = made(cls)
    assert str(error)
    if any("str" in str(field.type) for field in fields_of(cls)):
        assert "sample" in str(error)


@EVERY
def test_error_survives_being_copied(cls: type[BaseException]) -> None:
    """A copy of any depth, and a pickled one, has the same class, fields and message."""
    error = made(cls)
    reduced: Any = error.__reduce_ex__(4)
    for twin in (copy.copy(error), copy.deepcopy(error), reduced[0](*reduced[1])):
        assert type(twin) is cls
        assert twin is not error
        assert (str(twin), repr(twin), twin.args) == (str(error), repr(error), error.args)


@EVERY
def test_error_is_raised_and_chained(cls: type[BaseException]) -> None:
    """Frozen fields do not keep Python from setting traceback, cause and notes."""
    with pytest.raises(cls) as caught:
        raise made(cls) from ValueError("cause")
    caught.value.add_note("note")
    assert caught.value.__traceback__ is not None
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("cls", [cls for cls in ALL if attrs.has(cls)], ids=lambda cls: cls.__name__)
def test_error_fields_do_not_change(cls: type[BaseException]) -> None:
    """An error has exactly the fields that it was made with."""
    error = made(cls)
    typed: Any = cls
    for field in attrs.fields(typed):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(error, field.name, "other")


BUILT_IN: list[tuple[type[BaseException], type[Exception]]] = [
    (errors.InvalidValue, ValueError), (errors.WrongType, TypeError), (errors.CodecError, ValueError),
    (errors.PayloadTooLarge, ValueError), (errors.WorkflowNotFound, LookupError), (errors.TimedOut, TimeoutError),
    (errors.ActivityTimedOut, TimeoutError), (errors.OperationMisused, TypeError),
    (errors.DeadLetterNotFound, LookupError), (errors.ChildWorkflowFailed, errors.WorkflowFailed),
    (errors.ChildWorkflowCancelled, errors.WorkflowCancelled), (pauses.PauseNotFound, LookupError),
    (pauses.PauseExpired, TimeoutError),
    (schedules.ScheduleNotFound, LookupError),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "base"), BUILT_IN, ids=lambda cls: cls.__name__)
def test_error_is_caught_as_what_a_user_expects(cls: type[BaseException], base: type[Exception]) -> None:
    """Errors for which Python has a class are also errors of that built-in class."""
    with pytest.raises(base):
        raise made(cls)


def test_error_messages_leave_out_what_is_absent() -> None:
    """Optional fields appear in the message only if they are set."""
    assert str(errors.WorkflowCancelled("w", None)) == "workflow 'w' was cancelled"
    assert str(errors.WorkflowCancelled("w", "late")) == "workflow 'w' was cancelled: late"
    assert str(pauses.PauseCancelled("w", "0")) == "pause '0' of workflow 'w' was cancelled"
    assert str(errors.RetryAfter(5)) == "retry after 5"
    assert str(errors.RetryAfter(5, "busy")) == "busy"
    # Like any exception raised from another.
    assert str(errors.NonRetryable(ValueError("no"))) == "no"  # type: ignore[arg-type]
    assert str(errors.RetryAfter(5, ValueError("no"))) == "no"  # type: ignore[arg-type]
    assert Cancelled().reason is None
    assert Cancelled("why").reason == "why"
