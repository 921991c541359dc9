"""An event whose name looks like a typing error is named in the log, once; other names are not."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

import pytest

from durable import Durable, Event, WorkflowEngine, workflow

pytestmark = pytest.mark.anyio
approval = Event[int]("typos-approval")


class Events:
    """Events named after a class."""

    shipped = Event[int]("typos-shipment-arrived")


elsewhere: Any = ModuleType("elsewhere")
elsewhere.refunded = Event[int]("typos-refund-received")
step_1 = Event[int]("typos-step-1")


@workflow(name="typos")
def waits() -> Durable[int]:
    """Waits for one event, and then perhaps for another."""
    first = yield from approval.wait()
    return first + (yield from step_1.wait())


async def sent(name: str, caplog: pytest.LogCaptureFixture, *, to: str | None = None, times: int = 2) -> list[str]:
    """The warnings about an event of this name."""
    with caplog.at_level(logging.WARNING, "durable"):
        async with WorkflowEngine("memory://", workflows=[waits]) as engine:
            await engine.start(waits(), id="w")
            for number in range(times):
                await engine.send_event(Event[int](name), number, to=to)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("to", [None, "w"], ids=["untargeted", "targeted"])
@pytest.mark.parametrize("name", ["typos-aproval", "typos-approvla", "typos-Approval", "typos_approval"])
async def test_event_with_a_typing_error_is_named_once(
    name: str, to: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names the event that was probably meant."""
    warning = f"no workflow here waits for event {name!r}; did you mean 'typos-approval'?"
    assert await sent(name, caplog, to=to) == [warning]


@pytest.mark.parametrize(
    "name", ["typos-approval", "typos-step-1", "typos-step-2", "typos-step", "something-else", "typos-approval-eu"]
)
async def test_other_events_are_not_mentioned(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Names that are waited for, numbered or unknown here cause no warning."""
    assert await sent(name, caplog, times=3) == []


@workflow(name="typos-by-class")
def by_class() -> Durable[int]:
    """Waits for an event of a class."""
    return (yield from Events.shipped.wait())


@workflow(name="typos-by-module")
def by_module() -> Durable[int]:
    """Waits for an event of another module."""
    got: int = yield from elsewhere.refunded.wait()
    return got


@workflow(name="typos-in-place")
def in_place() -> Durable[int]:
    """Waits for an event that is created in place."""
    return (yield from Event[int]("typos-named-on-the-spot").wait())


@workflow(name="typos-made-up")
def made_up(customer: str) -> Durable[int]:
    """Waits for an event named after a customer."""
    return (yield from Event[int](f"typos-{customer}").wait())


@workflow(name="typos-sender")
def sends(name: str) -> Durable[str]:
    """Sends an event itself."""
    yield from Event[int](name).send(1)
    return "sent"


async def said_of(name: str, caplog: pytest.LogCaptureFixture, *, by_body: bool = False) -> list[str]:
    """The warnings about an event while workflows wait."""
    calls = {"class": by_class(), "module": by_module(), "place": in_place(), "customer": made_up("anna-smith")}
    with caplog.at_level(logging.WARNING, "durable"):
        async with WorkflowEngine("memory://") as engine:
            for id, call in calls.items():
                await engine.start(call, id=id)
            if by_body:
                await (await engine.start(sends(name))).result()
            else:
                await engine.send_event(Event[int](name), 1)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("by_body", [False, True], ids=["client", "body"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("typos-shipment-arived", "typos-shipment-arrived"),
        ("typos-refund-recieved", "typos-refund-received"),
        ("typos-named-on-the-sopt", "typos-named-on-the-spot"),
    ],
)
async def test_event_is_known_wherever_it_is_named(
    name: str, meant: str, by_body: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The name is found in a class, in another module or in a body, whether a client or a workflow sends it."""
    warning = f"no workflow here waits for event {name!r}; did you mean {meant!r}?"
    assert await said_of(name, caplog, by_body=by_body) == [warning]


@pytest.mark.parametrize("name", ["typos-hanna-smith", "typos-anna-smith"])
async def test_generated_name_is_not_a_typing_error(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Names that are generated for customers look alike, and each is right."""
    assert await said_of(name, caplog) == []


async def test_warning_about_mail_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The line carries the id and name of the workflow that should receive the event."""
    await sent("typos-aproval", caplog, to="w", times=1)
    assert [vars(record).get("workflow_id") for record in caplog.records] == ["w"]
