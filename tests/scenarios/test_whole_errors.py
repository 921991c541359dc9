"""An error of an activity arrives in the workflow as it was raised, also on replay; its class decides retries."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from durable import (
    Durable,
    Event,
    NonRetryable,
    Retry,
    RetryAfter,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    publish,
    stored_traceback,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("whole.go")
NOON = datetime(2026, 3, 28, 12, tzinfo=timezone.utc)


class Declined(Exception):
    """An error whose constructor takes other arguments than it passes on."""

    def __init__(self, code: int, *, at: datetime) -> None:
        super().__init__("declined")
        self.code = code
        self.at = at


@activity(retry=Retry.never())
async def charge() -> None:
    """Is declined."""
    error = Declined(402, at=NOON)
    error.add_note("ask the bank")
    raise error


@workflow(name="whole.pay")
def pay() -> Durable[list[str]]:
    """Reports what the error holds, and waits for an event."""
    try:
        yield from charge()
    except Declined as error:
        facts = [repr(error.args), repr(error.code), error.at.isoformat(), error.__notes__[0], str(error)]
        facts.append(stored_traceback(error))
        publish(facts)
        yield from go.wait()
        return facts
    return []


async def test_error_is_the_same_on_the_first_run_and_on_replay(store: Store) -> None:
    """Arguments, attributes, notes and traceback are the raised ones, both times."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(pay(), id="w")
        await waiting(engine, "w", "event")
        first = await handle.progress(list[str])
    async with WorkflowEngine(store) as engine:
        await engine.send_event(go, 1, to="w")
        facts = await engine.handle("w").result(timeout=SOON)
    assert facts == first
    assert facts[:5] == ["('declined',)", "402", NOON.isoformat(), "ask the bank", "declined"]
    assert "in charge" in facts[5]


class Refused(NonRetryable):
    """Cannot be rebuilt, because its arguments are not those of its `__init__`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused {code}")
        self.code = code


async def test_non_retryable_that_cannot_be_rebuilt_is_not_retried() -> None:
    """A subclass of NonRetryable whose arguments differ from its `__init__` is not retried."""
    attempts: list[int] = []

    @activity(retry=Retry(max_attempts=3, first_delay=0))
    async def pay() -> None:
        attempts.append(1)
        raise Refused(5)

    @workflow(name="whole.refused")
    def body() -> Durable[None]:
        yield from pay()

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match="refused 5"):
            await (await engine.start(body())).result(timeout=SOON)
    assert len(attempts) == 1


async def test_last_retry_after_comes_back_as_itself() -> None:
    """A RetryAfter with a timedelta that uses up the attempts is caught as RetryAfter, with its delay."""

    @activity(retry=Retry(max_attempts=1))
    async def busy() -> None:
        raise RetryAfter(timedelta(milliseconds=1500), "busy")

    @workflow(name="whole.retry-after")
    def body() -> Durable[tuple[float, str]]:
        try:
            yield from busy()
        except RetryAfter as error:
            return float(str(error.delay)), error.message
        return 0.0, ""

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(body())).result(timeout=SOON) == (1.5, "busy")


class CardDeclined(NonRetryable):
    """Has a field and its own `__init__`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


async def test_non_retryable_with_a_field_is_caught_by_its_class() -> None:
    """A subclass of NonRetryable may have fields; it is not retried, and the workflow catches it by its class."""
    attempts: list[int] = []

    @activity(retry=Retry(max_attempts=3, first_delay=0))
    async def pay() -> None:
        attempts.append(1)
        raise CardDeclined("card")

    @workflow(name="whole.declined")
    def body() -> Durable[str]:
        try:
            yield from pay()
        except CardDeclined as error:
            return error.code
        return "paid"

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(body())).result(timeout=SOON) == "card"
    assert len(attempts) == 1
