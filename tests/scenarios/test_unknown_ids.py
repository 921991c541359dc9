"""How each call answers for an id that does not exist: the table in docs/states.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable import (
    DeadLetterNotFound,
    Durable,
    DurableError,
    Event,
    EventNotFound,
    PauseNotFound,
    ScheduleNotFound,
    WorkflowEngine,
    WorkflowNotFound,
    pause,
    workflow,
)

pytestmark = pytest.mark.anyio
go = Event[int]("unknown.go")
Asked = Callable[[WorkflowEngine], Awaitable[Any]]


@workflow(name="unknown.asks")
def asks() -> Durable[int]:
    """Waits for an answer."""
    return (yield from pause(returns=int))


async def first_update(engine: WorkflowEngine) -> object:
    """The first update that a watcher gets."""
    return await anext(aiter(engine.handle("x").watch()))


NOTHING: dict[str, tuple[Asked, object]] = {
    "query_status": (lambda engine: engine.query_status("x"), None),
    "query_result": (lambda engine: engine.query_result("x"), None),
    "status": (lambda engine: engine.handle("x").status(), None),
    "events.list": (lambda engine: engine.events.list(to="x"), []),
}
REFUSED: dict[str, tuple[Asked, type[DurableError]]] = {
    "result": (lambda engine: engine.handle("x").result(), WorkflowNotFound),
    "progress": (lambda engine: engine.handle("x").progress(), WorkflowNotFound),
    "watch": (first_update, WorkflowNotFound),
    "cancel": (lambda engine: engine.cancel("x"), WorkflowNotFound),
    "terminate": (lambda engine: engine.terminate("x"), WorkflowNotFound),
    "send_event": (lambda engine: engine.send_event(go, 1, to="x"), WorkflowNotFound),
    "describe": (lambda engine: engine.runs.describe("x"), WorkflowNotFound),
    "history": (lambda engine: engine.runs.history("x"), WorkflowNotFound),
    "retry": (lambda engine: engine.runs.retry("x"), WorkflowNotFound),
    "fork": (lambda engine: engine.runs.fork("x", "0"), WorkflowNotFound),
    "repair": (lambda engine: engine.runs.repair("x", "0", 1, "why"), WorkflowNotFound),
    "pauses.list": (lambda engine: engine.pauses.list(workflow_id="x"), WorkflowNotFound),
    "pauses.resume": (lambda engine: engine.pauses.resume("x", "0", 1), WorkflowNotFound),
    "pauses.cancel": (lambda engine: engine.pauses.cancel("x", "0"), WorkflowNotFound),
    "pause": (lambda engine: engine.pauses.resume("w", "1", 1), PauseNotFound),
    "pause, cancel": (lambda engine: engine.pauses.cancel("w", "1"), PauseNotFound),
    "event": (lambda engine: engine.events.remove(99), EventNotFound),
    "letter, replay": (lambda engine: engine.dead_letters.replay(99), DeadLetterNotFound),
    "letter, remove": (lambda engine: engine.dead_letters.remove(99), DeadLetterNotFound),
    "schedule, pause": (lambda engine: engine.schedules.pause("x"), ScheduleNotFound),
    "schedule, resume": (lambda engine: engine.schedules.resume("x"), ScheduleNotFound),
    "schedule, trigger": (lambda engine: engine.schedules.trigger("x"), ScheduleNotFound),
    "schedule, delete": (lambda engine: engine.schedules.delete("x"), ScheduleNotFound),
}


@pytest.mark.parametrize("call", NOTHING)
async def test_question_about_an_unknown_id_is_answered(call: str) -> None:
    """Queries for the status or the result answer that there is nothing."""
    ask, answer = NOTHING[call]
    async with WorkflowEngine("memory://") as engine:
        assert await ask(engine) == answer


@pytest.mark.parametrize("call", REFUSED)
async def test_call_for_an_unknown_id_is_refused(call: str) -> None:
    """Calls that change something, or need more than a status, raise an error that names the missing id."""
    ask, error = REFUSED[call]
    async with WorkflowEngine("memory://") as engine:
        await engine.start(asks(), id="w")
        with pytest.raises(error):
            await ask(engine)


async def test_letter_is_not_lost_to_an_unknown_target() -> None:
    """A dead letter that is replayed to an unknown id stays where it is."""
    async with WorkflowEngine("memory://") as engine:
        await engine.start(asks(), id="w")
        await engine.send_event(go, 1, to="w")
        await engine.terminate("w")
        (letter,) = await engine.dead_letters.list()
        with pytest.raises(WorkflowNotFound):
            await engine.dead_letters.replay(letter.id, to="x")
        assert await engine.dead_letters.list() == [letter]
