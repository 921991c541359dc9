"""Cancellation: `Cancelled` is raised at every open wait, and the body decides what to do with it."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import Cancelled
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import now
from durable.runner.ops import sleep
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_ok,
    approval,
    cancellation,
    charge,
    error_of,
    instant,
    notify,
    opened,
    run,
    seconds,
    timer_fired,
    value_of,
    withdrawn,
)


@workflow(name="runner.cancel.generator")
def careful() -> Durable[Any]:
    """Cleans up with an operation and lets the cancellation pass."""
    try:
        yield from sleep(60)
    except Cancelled:
        yield from notify("undo")
        raise


@workflow(name="runner.cancel.coroutine")
async def async_careful() -> Any:
    """The same as a coroutine."""
    try:
        await sleep(60)
    except Cancelled:
        await notify("undo")
        raise


FLAVOURS = pytest.mark.parametrize("definition", [careful, async_careful], ids=["generator", "async def"])


@FLAVOURS
@pytest.mark.parametrize("reason", ["enough", None])
def test_cancel_is_raised_at_the_open_wait(definition: WorkflowDef[[], Any], reason: str | None) -> None:
    """The open wait is withdrawn, cleanup operations run, and the reason reaches the end."""
    session = a_session(definition)
    session.start()
    result = session.feed(cancellation(1, reason))
    assert (withdrawn(result), opened(result)) == (["0"], ["1"])
    assert session.wake_at() is None
    error = error_of(session.feed(activity_ok(2, "1", "notify", None)))
    assert isinstance(error, Cancelled)
    assert error.reason == reason


def test_cancel_ends_a_body_that_does_not_care() -> None:
    """Without a handler the workflow ends at once, and `except Exception` does not count as one."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from approval.wait()
        except Exception:
            return "swallowed"
        return "approved"

    assert isinstance(error_of(run(body, cancellation(1))), Cancelled)


def test_body_continues_after_a_swallowed_cancel() -> None:
    """A body that catches the cancellation continues like any other, and later entries still move its clock."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from approval.wait()
        except Cancelled as request:
            paid = yield from gather(charge(1), charge(2))
            return request.reason, paid, now()
        return "approved"

    entries = [cancellation(3, "why"), activity_ok(4, "1.1.0", "charge", 2), activity_ok(5, "1.0.0", "charge", 1)]
    assert value_of(run(body, *entries)) == ("why", (1, 2), instant(5))


def test_cancel_moves_the_time_of_the_workflow() -> None:
    """The workflow's clock moves to the time of the cancellation, and later deadlines count from it."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from sleep(60)
        except Cancelled:
            yield from sleep(10)

    session = a_session(body)
    session.replay([cancellation(7)])
    assert session.wake_at() == seconds(17)


def cleaning(amount: int, log: list[str]) -> Durable[str]:
    """A branch that cleans up with an operation."""
    try:
        yield from charge(amount)
    except Cancelled as request:
        log.append(f"{amount} {request.reason}")
        yield from notify(str(amount))
        raise
    return "paid"


@pytest.mark.parametrize("order", [("0.0.1", "0.1.0.0.1"), ("0.1.0.0.1", "0.0.1")])
def test_cancel_lets_every_branch_clean_up(order: tuple[str, str]) -> None:
    """`Cancelled` is raised in every branch, and the group ends when all have cleaned up, in any order."""
    log: list[str] = []

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from gather(cleaning(1, log), race(cleaning(2, log), sleep(9).within(5)), approval.wait())
        except Cancelled as request:
            return request.reason
        return "not cancelled"

    session = a_session(body)
    session.start()
    result = session.feed(cancellation(1, "stop"))
    assert log == ["1 stop", "2 stop"]
    assert sorted(opened(result)) == ["0.0.1", "0.1.0.0.1"]
    assert len(withdrawn(result)) == 5
    first, second = order
    assert opened(session.feed(activity_ok(2, first, "notify", None))) == []
    assert value_of(session.feed(activity_ok(3, second, "notify", None))) == "stop"


def test_cancel_ends_a_group_as_cancelled_whatever_its_branches_do() -> None:
    """A branch that swallows the cancellation, or fails during its cleanup, does not change the group's outcome."""

    def swallowing() -> Durable[str]:
        try:
            yield from charge(1)
        except Cancelled:
            yield from charge(2)
        return "swallowed"

    def failing() -> Durable[None]:
        try:
            yield from charge(3)
        finally:
            yield from notify("finally")

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from race(swallowing(), failing())

    session = a_session(body)
    session.start()
    assert sorted(opened(session.feed(cancellation(1, "stop")))) == ["0.0.1", "0.1.1"]
    assert opened(session.feed(activity_error(2, "0.1.1", "notify", Declined("no")))) == []
    error = error_of(session.feed(activity_ok(3, "0.0.1", "charge", 2)))
    assert isinstance(error, Cancelled)
    assert error.reason == "stop"


def test_cancel_ends_groups_that_were_half_done() -> None:
    """Branches that had finished before the cancellation do not keep their group open."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from gather(charge(1), gather(charge(2), charge(3)))

    entries = [activity_ok(1, "0.0.0", "charge", 1), activity_ok(2, "0.1.0.1.0", "charge", 3), cancellation(3)]
    assert isinstance(error_of(run(body, *entries)), Cancelled)


def test_cancel_is_caught_around_an_inner_group() -> None:
    """A branch may catch the cancellation of its own inner group, but the outer group is still cancelled."""

    def inner() -> Durable[str]:
        try:
            yield from gather(charge(1), sleep(5))
        except Cancelled:
            yield from notify("inner")
        return "inner is done"

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from gather(inner())

    session = a_session(body)
    session.start()
    assert opened(session.feed(cancellation(1))) == ["0.0.1"]
    assert isinstance(error_of(session.feed(activity_ok(2, "0.0.1", "notify", None))), Cancelled)


def test_cancel_is_not_a_timeout() -> None:
    """A cancelled limit raises Cancelled, and its default does not hide it."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from approval.wait().within(5).or_default("late"))

    assert isinstance(error_of(run(body, cancellation(1))), Cancelled)


def test_cancel_may_come_again_during_cleanup() -> None:
    """A second cancellation is raised at the wait of the cleanup."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        reasons = []
        for _ in range(2):
            try:
                yield from sleep(5)
            except Cancelled as request:
                reasons.append(request.reason)
        yield from sleep(5)
        return reasons

    entries = [cancellation(1, "one"), cancellation(2, "two"), timer_fired(9, "2")]
    assert value_of(run(body, *entries)) == ["one", "two"]


def test_cancel_after_a_failure_changes_nothing() -> None:
    """A cancellation of a workflow that has already failed returns its error."""

    @workflow(name="w")
    def body() -> Durable[int]:
        yield from charge(1)
        raise LookupError("gone")

    assert isinstance(error_of(run(body, activity_ok(1, "0", "charge", 4), cancellation(2))), LookupError)


@pytest.mark.parametrize("how", ["returns", "continues"])
def test_cancel_after_a_good_end_undoes(how: str) -> None:
    """If other code ends well before a recorded cancellation, the workflow fails with it after all and is undone."""

    @workflow(name="w")
    def body() -> Durable[int]:
        yield from (charge(1).undo(lambda _: notify()) if how == "returns" else charge(1))
        if how == "continues":
            raise body.continue_as()
        return 4

    entries = [activity_ok(1, "0", "charge", 4), cancellation(2, "why")]
    undone = [activity_ok(3, "u.0.0", "notify", None)] if how == "returns" else []
    error = error_of(run(body, *entries, *undone))
    assert isinstance(error, Cancelled)
    assert error.reason == "why"
