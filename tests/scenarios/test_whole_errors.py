"""What an activity raises arrives in the workflow as it was raised, on the first run and on replay."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from durable import Durable, Event, Retry, WorkflowEngine, activity, publish, stored_traceback, workflow
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("whole.go")
NOON = datetime(2026, 3, 28, 12, tzinfo=timezone.utc)


class Declined(Exception):
    """Its constructor takes something else than what it hands on."""

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
    """Tells what is in the error, and waits for a word."""
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
    """Arguments, attributes, notes and traceback are what was raised, both times."""
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
