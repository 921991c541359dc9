"""Regressions: each test is a fault that the runner once had."""

from __future__ import annotations

import gc
import logging
import math
from datetime import datetime, timedelta, timezone
from functools import partial
from types import GeneratorType
from typing import Any

import pytest

from durable.errors import CodecError, InvalidValue, OperationMisused, TimedOut, WrongType
from durable.model.clock import LATEST, from_datetime, from_duration
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, activity, workflow
from durable.runner.ops import Op, sleep
from tests.runner.builders import (
    START,
    Declined,
    a_session,
    activity_error,
    approval,
    cancellation,
    charge,
    error_of,
    opened,
    run,
    seconds,
    value_of,
    with_outcome,
)


def test_garbage_of_a_failed_workflow_does_not_fail_another() -> None:
    """An operation that a failed workflow had prepared and never reached is not another workflow's mistake."""

    @workflow(name="a")
    def first() -> Durable[Any]:
        first_op, second_op = charge(1), charge(2)
        return (yield from first_op), (yield from second_op)

    @workflow(name="b")
    def second() -> Durable[Any]:
        gc.collect()  # as Python does by itself, at any moment
        yield from sleep(1)

    gc.disable()
    try:
        assert type(error_of(run(first, activity_error(1, "0", "charge", Declined("no"))))) is Declined
        assert opened(run(second)) == ["0"]
    finally:
        gc.enable()


@pytest.mark.parametrize("limit", [-1, math.nan, math.inf, "5", timedelta.max])
def test_senseless_limit_is_refused_in_the_body(limit: Any) -> None:
    """An invalid limit raises in the body, which may catch the error and continue."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from approval.wait().within(limit)
        except (ValueError, TypeError):
            yield from sleep(0)
        return "on"

    assert value_of(run(body)) == "on"


@pytest.mark.parametrize("make", [lambda: approval.wait(5), lambda: gather(charge(1), 5)])  # type: ignore[arg-type, call-overload]
def test_refused_operation_can_be_caught(make: Any) -> None:
    """An operation that was refused when it was made does not count as dropped."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from make()
        except TypeError:
            yield from sleep(0)
        return "on"

    assert value_of(run(body)) == "on"


def test_limit_beyond_the_calendar_is_not_a_timeout() -> None:
    """A limit that ends after the year 9999 is a ValueError, not an immediate timeout."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from approval.wait().within(timedelta(microseconds=LATEST - START + 1))
        except TimedOut:
            return "timed out"
        except ValueError:
            return "refused"
        return "approved"

    assert value_of(run(body)) == "refused"


@pytest.mark.parametrize("value", [1e303, 1.7e308, 10**400, -(10**400), -1e-7, -5e-324])
def test_durations_far_out_are_refused(value: Any) -> None:
    """A number that is not a duration is an InvalidValue."""
    with pytest.raises(InvalidValue):
        from_duration("limit", value)


def test_instant_after_the_calendar_is_refused() -> None:
    """An instant after the year 9999 in UTC is refused, because it could never be shown."""
    with pytest.raises(InvalidValue):
        from_datetime("until", datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))))


def test_body_that_failed_while_closing_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a body that refuses to end is kept; one that raised has ended."""
    # A captured line keeps its error, and with it the frames.
    monkeypatch.setattr(logging.getLogger("durable"), "disabled", True)

    @workflow(name="w")
    def body() -> Durable[None]:
        try:
            yield from sleep(60)
        finally:
            raise ValueError("broken cleanup")

    session = a_session(body)
    session.start()
    session.close()
    code = body.fn.__code__
    del session
    gc.collect()
    assert not [alive for alive in gc.get_objects() if isinstance(alive, GeneratorType) and alive.gi_code is code]


def test_branch_beside_a_refused_one_is_not_reported() -> None:
    """A branch next to one that could not be made is not a dropped operation."""

    @workflow(name="w")
    def body() -> Durable[int]:
        try:
            yield from gather(charge(1), charge(int("x")))
        except ValueError:
            yield from sleep(0)
        return 1

    assert value_of(run(body)) == 1


def test_forgotten_local_is_reported_at_the_return() -> None:
    """An operation left in a local and never yielded fails the workflow, and durable's own code is not blamed."""

    @workflow(name="w")
    def body() -> Durable[int]:
        yield from sleep(0)
        payment = charge(1)  # noqa: F841
        return 1

    error = error_of(run(body))
    assert isinstance(error, OperationMisused)
    assert "never yielded" in str(error)
    assert "interpreter.py" not in str(error)


@pytest.mark.parametrize("name", ["", "a\0b", 5, "x" * 256])
def test_options_refuse_a_senseless_name(name: Any) -> None:
    """A name in `options` is checked like one in the decorator."""
    with pytest.raises((InvalidValue, WrongType)):
        charge.options(name=name)


def test_partial_of_a_generator_function_is_refused() -> None:
    """A callable that cannot be an activity or has no name is refused with a message."""

    def steps(amount: int) -> Durable[int]:
        return (yield from charge(amount))

    with pytest.raises(WrongType):
        activity(partial(steps, 1))
    with pytest.raises((WrongType, InvalidValue)):
        workflow(partial(steps, 1))


def test_unreadable_cancellation_changes_nothing() -> None:
    """An unreadable reason is a CodecError, and the workflow's time does not move."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from sleep(60)

    session = a_session(body)
    session.start()
    with pytest.raises(CodecError):
        session.feed(with_outcome(cancellation(5), "{"))
    assert session.now == seconds(0)


def test_caught_refusal_is_reported_at_a_bare_yield() -> None:
    """A bare yield of an operation that was just refused does not run it, and the first mistake is reported."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        op: Op[int] = charge(1)
        try:
            list(op)
        except OperationMisused:
            yield op

    assert "charge(...) is an operation, not a sequence" in str(error_of(run(body)))
