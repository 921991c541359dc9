"""Closing a body: pure cleanup runs, operations do not, and closing always ends."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import sleep
from durable.runner.undo import saga
from tests.runner.builders import (
    a_session,
    activity_ok,
    approval,
    cancellation,
    charge,
    error_of,
    notify,
    opened,
    timer_fired,
    value_of,
    withdrawn,
)

Make = Callable[[list[str]], WorkflowDef[[], Any]]


def generator_body(log: list[str]) -> WorkflowDef[[], Any]:
    """A body with an operation in its `finally`, as a generator."""

    @workflow(name="w")
    def body() -> Durable[None]:
        try:
            yield from sleep(60)
        finally:
            log.append("before")
            yield from notify("closing")
            log.append("after")

    return body


def coroutine_body(log: list[str]) -> WorkflowDef[[], Any]:
    """The same as a coroutine."""

    @workflow(name="w")
    async def body() -> None:
        try:
            await sleep(60)
        finally:
            log.append("before")
            await notify("closing")
            log.append("after")

    return body


@pytest.mark.parametrize("make", [generator_body, coroutine_body])
def test_close_runs_no_operation(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A `finally` runs up to its first operation, which does not run, and nothing is logged."""
    log: list[str] = []
    session = a_session(make(log))
    session.start()
    session.close()
    assert log == ["before"]
    assert session.waits == {}
    assert caplog.records == []


def test_close_runs_pure_cleanup_of_every_branch() -> None:
    """Plain code in `finally` and `with` runs in all branches, the inner ones first."""
    log: list[str] = []

    def branch(name: str) -> Durable[None]:
        try:
            yield from gather(sleep(60), approval.wait())
        finally:
            log.append(name)

    async def async_branch(name: str) -> None:
        try:
            await sleep(60)
        finally:
            log.append(name)

    @workflow(name="w")
    def body() -> Durable[None]:
        try:
            yield from race(branch("one"), async_branch("two"), charge(1))
        finally:
            log.append("root")

    session = a_session(body)
    session.start()
    session.close()
    assert log == ["one", "two", "root"]
    assert (session.waits, session.wake_at()) == ({}, None)


def stubborn_generator(log: list[str]) -> WorkflowDef[[], Any]:
    """A body that swallows everything, as a generator. It stops some time, or Python could not end the process."""

    @workflow(name="w")
    def body() -> Durable[None]:
        for _ in range(10):
            try:
                yield from sleep(60)
            except BaseException as error:
                log.append(type(error).__name__)

    return body


def stubborn_coroutine(log: list[str]) -> WorkflowDef[[], Any]:
    """The same as a coroutine."""

    @workflow(name="w")
    async def body() -> None:
        for _ in range(10):
            try:
                await sleep(60)
            except BaseException as error:
                log.append(type(error).__name__)

    return body


@pytest.mark.parametrize("make", [stubborn_generator, stubborn_coroutine])
def test_close_abandons_a_body_that_swallows_everything(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A body that refuses to end is abandoned with a line in the log, and `close` returns, the second time too."""
    log: list[str] = []
    session = a_session(make(log))
    session.start()
    with caplog.at_level(logging.ERROR, logger="durable"):
        session.close()
        session.close()
    assert log == ["GeneratorExit", "SessionClosed"]
    [record] = caplog.records
    assert record.getMessage().startswith("workflow w-1 (w) could not be closed in order: ")
    assert (record.workflow_id, record.workflow_name) == ("w-1", "w")  # type: ignore[attr-defined]
    assert "ignored GeneratorExit" in record.getMessage()


def test_close_logs_a_cleanup_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """An error in a `finally` is logged, and the other branches are closed too."""
    log: list[str] = []

    def failing() -> Durable[None]:
        try:
            yield from sleep(60)
        finally:
            raise ValueError("broken cleanup")

    @workflow(name="w")
    def body() -> Durable[None]:
        try:
            yield from gather(failing(), sleep(5))
        finally:
            log.append("root")

    session = a_session(body)
    session.start()
    session.close()
    assert "broken cleanup" in caplog.text
    assert log == ["root"]


def test_close_lets_a_body_return_instead() -> None:
    """A body may return when it is closed."""
    log: list[str] = []

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from sleep(60)
        except GeneratorExit:
            log.append("returned")
        return "early"

    session = a_session(body)
    session.start()
    session.close()
    assert log == ["returned"]


@pytest.mark.parametrize("make", [generator_body, coroutine_body])
def test_close_before_the_start_does_nothing(make: Make) -> None:
    """A session that was not started has nothing to close, and can still be started."""
    log: list[str] = []
    session = a_session(make(log))
    session.close()
    assert log == []
    assert opened(session.start()) == ["0"]
    session.close()


def test_close_twice_runs_cleanup_once() -> None:
    """The second `close` has nothing to do."""
    log: list[str] = []
    session = a_session(generator_body(log))
    session.start()
    session.close()
    session.close()
    assert log == ["before"]


def test_close_after_the_end_does_nothing() -> None:
    """Closing a workflow that has ended does not change its error."""

    @workflow(name="w")
    def body() -> Durable[int]:
        raise LookupError((yield from charge(1)))

    session = a_session(body)
    session.start()
    ended = session.feed(activity_ok(1, "0", "charge", 4))
    session.close()
    assert session.feed(cancellation(2)) is ended


def test_losers_are_closed_without_their_operations(caplog: pytest.LogCaptureFixture) -> None:
    """A losing branch runs its pure cleanup but no operation of its `finally`, and none is reported as dropped."""
    log: list[str] = []

    def loser() -> Durable[None]:
        unused = charge(7)
        try:
            yield from sleep(60)
        finally:
            log.append("closed")
            charge(8)  # type: ignore[unused-awaitable]
            yield from gather(unused)

    @workflow(name="w")
    def body() -> Durable[Any]:
        won = yield from race(loser(), charge(1))
        return won.key, (yield from sleep(1))

    session = a_session(body)
    session.start()
    result = session.feed(activity_ok(1, "0.1.0", "charge", 1))
    assert (log, withdrawn(result), opened(result)) == (["closed"], ["0.0.0"], ["1"])
    assert value_of(session.feed(timer_fired(2, "1")))[0] == 1
    assert caplog.records == []


def test_loser_that_swallows_everything_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    """A losing branch that refuses to end does not stop the workflow, and never runs again."""
    log: list[str] = []

    @workflow(name="w")
    def body() -> Durable[Any]:
        loser = stubborn_generator(log).fn()
        won = yield from race(loser, sleep(5))
        log.append("on")
        yield from sleep(1)
        return won.key

    session = a_session(body)
    session.start()
    assert opened(session.feed(timer_fired(5, "0.1.0"))) == ["1"]
    assert value_of(session.feed(timer_fired(6, "1"))) == 1
    assert log == ["GeneratorExit", "SessionClosed", "on"]
    assert "could not be closed" in caplog.text


def test_closed_bodies_raise_nothing_into_later_sessions() -> None:
    """After one session was closed, another one runs without any trace of it."""
    first = a_session(generator_body([]))
    first.start()
    first.close()

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from sleep(1)
        raise ValueError("mine")

    session = a_session(body)
    session.start()
    assert str(error_of(session.feed(timer_fired(1, "0")))) == "mine"


@pytest.mark.parametrize("is_ended", [True, False])
def test_nothing_is_left_for_the_garbage_collector(is_ended: bool) -> None:
    """A session whose body has ended or was closed is freed at once: there is no reference cycle."""

    @workflow(name="w")
    def body() -> Durable[int]:
        yield from charge(1)
        return (yield from charge(2))

    gc.collect()
    gc.disable()
    try:
        session = a_session(body)
        session.start()
        session.feed(activity_ok(1, "0", "charge", 1))
        if is_ended:
            session.feed(activity_ok(2, "1", "charge", 2))
        else:
            session.close()
        del session
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_branches_deeper_than_the_stack_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Branches nested under a higher recursion limit can be closed under a lower one.

    The innermost is closed first, with its cleanup, and all open waits are withdrawn.
    """
    log: list[int] = []

    def nested(depth: int) -> Durable[None]:
        try:
            yield from saga(nested(depth - 1)) if depth else sleep(60)
        finally:
            log.append(depth)

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from nested(600)

    session = a_session(body)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * limit)
    try:
        opened(session.start())
    finally:
        sys.setrecursionlimit(limit)
    session.close()
    assert log == list(range(601))
    assert not session.waits
    assert not caplog.records
