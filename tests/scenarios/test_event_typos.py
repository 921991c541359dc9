"""An event whose name looks like a typing error is named in the log, once; all others are not."""

from __future__ import annotations

import logging

import pytest

from durable import Durable, Event, WorkflowEngine, workflow

pytestmark = pytest.mark.anyio
approval = Event[int]("typos-approval")
step_1 = Event[int]("typos-step-1")


@workflow(name="typos")
def waits() -> Durable[int]:
    """Waits for one event, and then perhaps for another."""
    first = yield from approval.wait()
    return first + (yield from step_1.wait())


async def sent(name: str, caplog: pytest.LogCaptureFixture, *, to: str | None = None, times: int = 2) -> list[str]:
    """What is said about an event of this name."""
    with caplog.at_level(logging.WARNING, "durable"):
        async with WorkflowEngine("memory://", workflows=[waits]) as engine:
            await engine.start(waits(), id="w")
            for number in range(times):
                await engine.send_event(Event[int](name), number, to=to)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("to", [None, "w"], ids=["untargeted", "targeted"])
@pytest.mark.parametrize("name", ["typos-aproval", "typos-approvla", "typos-Approval"])
async def test_event_with_a_typing_error_is_named_once(
    name: str, to: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning says which name was probably meant."""
    said = f"no workflow here waits for event {name!r}; did you mean 'typos-approval'?"
    assert await sent(name, caplog, to=to) == [said]


@pytest.mark.parametrize(
    "name", ["typos-approval", "typos-step-1", "typos-step-2", "something-else", "typos-approval-eu"]
)
async def test_other_events_are_not_mentioned(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Names that are waited for, numbered or simply unknown here are nobody's typing errors."""
    assert await sent(name, caplog, times=3) == []
