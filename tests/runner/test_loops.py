"""`loop`: a helper round after round, its state, and the entries that it records."""

from __future__ import annotations

import functools
import json
from typing import Any

import attrs
import pytest

from durable.errors import CodecError, InvalidValue, OperationMisused, WrongType
from durable.model.records import EntryStatus
from durable.runner.definitions import Durable, workflow
from durable.runner.loops import Break, Continue, Course, loop
from durable.runner.ops import Op, sleep
from durable.runner.undo import saga
from tests.runner.builders import (
    CODEC,
    Declined,
    a_session,
    activity_error,
    activity_ok,
    approval,
    charge,
    error_of,
    notify,
    opened,
    run,
    value_of,
)
from tests.runner.tale import Tale

Next = Continue[int] | Break[Any]


def counting(number: int) -> Durable[Next]:
    """A round with one step; the third is the last."""
    got = yield from charge(number)
    return Continue(got + 1) if got < 3 else Break(f"after {got}")


async def counting_async(number: int) -> Next:
    """The same as a coroutine."""
    got = await charge(number)
    return Continue(got + 1) if got < 3 else Break(f"after {got}")


def still(number: int) -> Durable[Next]:
    """Rounds without entries."""
    yield from sleep(0)
    return Continue(number + 1) if number < 20_000 else Break(number)


def loop_then_notify(body: Any, state: Any, keep: int = 10) -> Any:
    """A workflow with one loop and then a step."""

    @workflow(name="w")
    def definition() -> Durable[Any]:
        result = yield from loop(body, state, keep=keep)
        yield from notify()
        return result

    return definition


# --- rounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [counting, counting_async], ids=["generator", "async def"])
def test_rounds_follow_each_other(body: Any) -> None:
    """Each round begins with the state that the last one returned, and the value of `Break` is the loop's result."""
    tale = Tale(loop_then_notify(body, 1))
    assert tale.open == {"0.0.0": "charge 1"}
    assert tale.ok("0.0.0").open == {"0.1.1": "charge 2"}
    assert tale.ok("0.1.1").open == {"0.2.1": "charge 3"}
    assert tale.ok("0.2.1").open == {"1": "notify"}
    assert tale.ok("1").value == "after 3"
    assert tale.recorded == ["0.0.0", "0.1.0*", "0.1.1", "0.2.0*", "0.2.1", "1"]


def test_state_is_the_first_entry_of_its_round() -> None:
    """A round that received an entry ends with one more entry, the state of the next round."""
    session = a_session(loop_then_notify(counting, 1))
    session.start()
    assert opened(session.feed(activity_ok(1, "0.0.0", "charge", 1))) == ["0.1.0"]
    wait = session.waits["0.1.0"]
    assert (wait.kind.value, wait.name, json.loads(wait.input)) == ("loop", "state", {"since": 1, "state": 2})
    assert str(wait.op) == "state of a loop"


def test_rounds_without_entries_record_nothing() -> None:
    """Any number of rounds that wait for nothing pass at once, without an entry and without growing the stack."""
    tale = Tale(loop_then_notify(still, 0))
    assert tale.ok("1").value == 20_000
    assert tale.recorded == ["1"]


def test_round_may_begin_without_a_state_of_its_own() -> None:
    """After rounds without entries the first step of a round has the first position, also on replay."""

    def every_other(number: int) -> Durable[Next]:
        if number % 2:
            yield from charge(number)
        return Continue(number + 1) if number < 4 else Break(number)

    tale = Tale(loop_then_notify(every_other, 0)).ok("0.1.0", "0.3.0", "1")
    assert tale.value == 4
    assert tale.recorded == ["0.1.0", "0.2.0*", "0.3.0", "0.4.0*", "1"]


def test_positions_after_a_loop_do_not_depend_on_its_rounds() -> None:
    """The step after a loop has the same position for any number of rounds."""

    def until(last: int) -> Any:
        def body(number: int) -> Durable[Next]:
            yield from sleep(1)
            return Continue(number + 1) if number < last else Break(None)

        return body

    for last in (1, 19):
        tale = Tale(loop_then_notify(until(last), 0))
        while "1" not in tale.open:
            tale.ok(*tale.open)
        assert tale.recorded[-1].startswith(f"0.{last}.")


def test_body_may_return_an_operation() -> None:
    """A function that returns an operation is a valid body; the round ends with the operation's result."""

    def through(number: int) -> Op[Any]:
        return saga(counting(number))

    tale = Tale(loop_then_notify(through, 2)).ok("0.0.0.0.0", "0.1.1.0.0", "1")
    assert tale.value == "after 3"


class Methods:
    """Bodies that are not plain functions."""

    def method(self, number: int) -> Durable[Next]:
        """A bound method."""
        return counting(number)

    def __call__(self, number: int) -> Durable[Next]:
        return counting(number)

    def state_second(self, more: int, number: int) -> Durable[Next]:
        """The state is the second parameter."""
        return counting(number + more)


@pytest.mark.parametrize(
    "body",
    [Methods().method, Methods(), functools.partial(Methods().state_second, 0), lambda number: counting(number + 0)],
    ids=["method", "object", "partial", "lambda"],
)
def test_bodies_that_are_no_plain_functions(body: Any) -> None:
    """A method, a callable object, a partial and a lambda are valid bodies."""
    assert Tale(loop_then_notify(body, 3)).ok("0.0.0", "1").value == "after 3"


# --- the state ------------------------------------------------------------------------------------------------------


@attrs.define
class Basket:
    """A mutable state."""

    items: list[str]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_state_is_written_and_read_back(is_waiting: bool) -> None:
    """A round gets a copy: changing an object of an earlier state changes nothing, recorded or not."""
    kept: list[Basket] = []

    def body(basket: Basket) -> Durable[Any]:
        if is_waiting:
            yield from notify()
        for old in kept:
            old.items.append("late")
        mine = Basket([*basket.items, "more"])
        kept.extend((basket, mine))
        return Continue(mine) if len(mine.items) < 3 else Break([*mine.items])

    tale = Tale(loop_then_notify(body, Basket([])))
    for old in kept:
        old.items.append("later")
    while "1" not in tale.open:
        tale.ok(*tale.open)
    assert tale.ok("1").value == ["more", "more", "more"]


def test_state_is_stored_by_the_annotation_else_by_the_first_one() -> None:
    """With an annotation each state has that type; without one it has the type of the first state."""

    def annotated(state: float | None) -> Durable[Any]:
        yield from notify()
        return Break("none") if state is None else Continue(None)

    def bare(state):  # type: ignore[no-untyped-def]
        yield from notify()
        return Break(type(state).__name__) if state.items else Continue(Basket(["one"]))

    assert Tale(loop_then_notify(annotated, 1)).ok("0.0.0", "0.1.1", "1").value == "none"
    assert Tale(loop_then_notify(bare, Basket([]))).ok("0.0.0", "0.1.1", "1").value == "Basket"


def test_state_may_be_nothing() -> None:
    """None is a state like any other."""

    def body(state: None) -> Durable[Any]:
        return Continue(None) if (yield from approval.wait()) is None else Break("came")

    tale = Tale(loop_then_notify(body, None)).ok("0.0.0", "0.1.1")
    assert tale.ok("0.2.1", value="x").ok("1").value == "came"


# --- invalid arguments and bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [-1, True, 1.5, None, "3"], ids=repr)
def test_keep_must_be_a_count(keep: Any) -> None:
    """A negative number, or a value that is not a count, is refused where the loop is made."""
    with pytest.raises(InvalidValue, match="keep must be an int of at least 0"):
        loop(counting, 1, keep=keep)  # type: ignore[unused-awaitable]


@pytest.mark.parametrize("body", [None, 7, counting(1)], ids=["None", "number", "a generator"])
def test_body_must_be_callable(body: Any) -> None:
    """A non-callable is refused where the loop is made."""
    with pytest.raises(WrongType, match="body must be a function of the state"):
        loop(body, 1)  # type: ignore[unused-awaitable]


def returns(value: Any) -> Any:
    """A body that waits for a step and then returns this value."""

    def body(number: int) -> Durable[Any]:
        yield from notify()
        return value

    return body


@pytest.mark.parametrize("value", [None, 7, Continue, (Continue(1),)], ids=repr)
def test_round_must_return_continue_or_break(value: Any) -> None:
    """A body that returns neither `Continue` nor `Break` fails the loop, and the message names both."""
    error = Tale(loop_then_notify(returns(value), 1)).ok("0.0.0").error
    assert isinstance(error, OperationMisused)
    assert "must return Continue(state) or Break(value)" in str(error)


@pytest.mark.parametrize("value", [object(), float("nan"), "text", None], ids=["object", "NaN", "text", "None"])
def test_state_that_cannot_be_stored_fails_the_loop(value: Any) -> None:
    """The error is raised at the loop, names the parameter, and is the same on replay."""
    error = Tale(loop_then_notify(returns(Continue(value)), 1)).ok("0.0.0").error
    assert isinstance(error, CodecError)
    assert error.where == "loop body: parameter 'number'"


def test_first_state_that_cannot_be_stored_fails_the_loop() -> None:
    """The error is raised before the first round begins."""
    for body in (counting, lambda state: counting(1)):
        error = error_of(run(loop_then_notify(body, object())))
        assert isinstance(error, CodecError), error
        assert error.where in ("loop counting: parameter 'number'", "loop <lambda>: state")


class Unreadable:
    """A callable whose signature cannot be read."""

    __signature__ = 5

    def __call__(self, number: int) -> Durable[Next]:
        raise AssertionError


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (lambda number: 1 // (number - 1), ZeroDivisionError),
        (Break[int], OperationMisused),
        (lambda: None, TypeError),
        (Unreadable(), TypeError),
    ],
    ids=["raises", "makes no round", "takes no state", "has no signature"],
)
def test_round_that_cannot_be_made_fails_the_loop(body: Any, error: type[Exception]) -> None:
    """A body that raises when it is called, or returns something else than a helper, fails the loop."""

    @workflow(name="w")
    def definition() -> Durable[str]:
        try:
            yield from loop(body, 1)
        except error:
            return "caught"
        return ""

    assert value_of(run(definition)) == "caught"


def test_operation_that_a_body_drops_is_found() -> None:
    """An operation made and never yielded fails the round, whether the body is a function or a generator."""

    def careless(number: int) -> Any:
        notify()  # type: ignore[unused-awaitable]
        return counting(number)

    def forgetful(number: int) -> Durable[Next]:
        yield from charge(number)
        notify()  # type: ignore[unused-awaitable]
        return Continue(number)

    assert "never yielded" in str(error_of(run(loop_then_notify(careless, 1))))
    assert "never yielded" in str(Tale(loop_then_notify(forgetful, 1)).ok("0.0.0").error)


def test_body_that_raises_ends_the_loop() -> None:
    """The error is raised at the loop, and earlier rounds stay recorded."""

    def body(number: int) -> Durable[Next]:
        try:
            yield from charge(number)
        except Declined as error:
            raise LookupError(number) from error
        return Continue(number + 1)

    tale = Tale(loop_then_notify(body, 1)).ok("0.0.0").fails("0.1.1", Declined("no"))
    assert tale.error.args == (2,)


def test_workflow_cannot_continue_as_another_from_a_round() -> None:
    """As in any branch, `continue_as` is refused."""

    @workflow(name="w")
    def definition() -> Durable[Any]:
        return (yield from loop(body, 1))

    def body(number: int) -> Durable[Next]:
        yield from notify()
        raise definition.continue_as()

    assert "continue_as inside a branch" in str(Tale(definition).ok("0.0.0").error)


def test_state_that_was_refused_is_raised_by_the_loop() -> None:
    """If the engine refuses a state, it records that, and the loop raises the error once, also on every replay."""

    @workflow(name="w")
    def definition() -> Durable[str]:
        try:
            yield from loop(counting, 1)
        except Declined as error:
            yield from notify()
            return str(error)
        return ""

    session = a_session(definition)
    session.start()
    session.feed(step := activity_ok(1, "0.0.0", "charge", 1))
    refusal = activity_error(2, "0.1.0", "state", Declined("too large"))._replace(kind=session.waits["0.1.0"].kind)
    assert opened(session.feed(refusal)) == ["1"]
    again = a_session(definition)
    assert refusal.status is EntryStatus.ERROR
    assert again.replay([step, refusal]) is not None
    assert [*again.waits] == [*session.waits] == ["1"]
    assert value_of(again.feed(activity_ok(3, "1", "notify", None))) == "too large"


def test_loop_always_has_a_round() -> None:
    """The outcome of a loop without rounds is never needed."""
    with pytest.raises(AssertionError):
        Course(loop(counting, 1), CODEC, None).empty()  # type: ignore[arg-type]
