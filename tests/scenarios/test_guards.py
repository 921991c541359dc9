"""Mistakes are refused where they are made, with a clear message, and nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from durable import (
    Durable,
    DurableError,
    EngineConfig,
    Event,
    OperationMisused,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    WrongType,
    activity,
    call,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON, contents

pytestmark = pytest.mark.anyio
answer = Event[int]("guards-answer")


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@workflow(name="guards-wait")
def wait_for(number: int = 0) -> Durable[int]:
    """Wait for a number."""
    return number + (yield from answer.wait())


ENGINE_CALLS: dict[str, Callable[[WorkflowEngine], Any]] = {
    "start": lambda engine: engine.start(wait_for()),
    "send_event": lambda engine: engine.send_event(answer, 1),
    "query_status": lambda engine: engine.query_status("a"),
    "cancel": lambda engine: engine.cancel("a"),
    "result": lambda engine: engine.handle("a").result(),
    "list": lambda engine: engine.runs.list(),
    "shutdown": lambda engine: engine.shutdown(),
    "recover": lambda engine: engine.recover(),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["generator", "async def"])
@pytest.mark.parametrize("name", ENGINE_CALLS)
async def test_body_must_not_talk_to_the_engine(name: str, is_async: bool) -> None:
    """An engine call inside a body fails that workflow with the call's name and what to write instead."""

    @workflow(name="talks")
    def talks() -> Durable[None]:
        ENGINE_CALLS[name](engine)
        yield from sleep(0)

    @workflow(name="talks-async")
    async def talks_async() -> None:
        await ENGINE_CALLS[name](engine)

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match="in an activity") as caught:
            await (await engine.start(talks_async() if is_async else talks())).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OperationMisused)
        assert f"{name}()" in str(caught.value.__cause__)
        assert await engine.runs.count() == 1


@pytest.mark.parametrize("use", [list, lambda op: op.__await__().send(None)], ids=["iterate", "await"])
async def test_activity_must_not_use_operations(use: Callable[[Any], object]) -> None:
    """An operation inside an activity is a permanent failure that names the plain function."""
    runs: list[int] = []

    @activity(retry=Retry(max_attempts=5, first_delay=0))
    async def confused() -> None:
        runs.append(1)
        use(add_one(1))

    @workflow(name="confused")
    def body() -> Durable[None]:
        yield from confused()

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match=r"inside an activity.*\.fn"):
            await (await engine.start(body())).result(timeout=SOON)
    assert runs == [1]


def bare_yield() -> Durable[None]:
    """Forgets `from`."""
    yield sleep(0)


def no_operation() -> Durable[None]:
    """Yields something that is not an operation."""
    yield cast(Any, 42)


def forgotten() -> Durable[None]:
    """Forgets to yield at all."""
    add_one(1)  # type: ignore[unused-awaitable]
    yield from sleep(0)


async def foreign() -> None:
    """Awaits something that needs an event loop."""
    await anyio.sleep(1)


@pytest.mark.parametrize("fn", [bare_yield, no_operation, forgotten, foreign])
async def test_misused_operations_fail_the_workflow(fn: Any) -> None:
    """A bare yield, a foreign awaitable and a forgotten operation fail with a message, and the engine keeps working."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(workflow(name=fn.__name__)(fn)())).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OperationMisused | RuntimeError)
        assert await engine.query_status("nobody") is None


BAD_IDS = [
    pytest.param("", ValueError, id="empty"),
    pytest.param("x" * 256, ValueError, id="256 characters"),
    pytest.param("a\0b", ValueError, id="NUL"),
    pytest.param("a\ud800", ValueError, id="surrogate"),
    pytest.param(5, TypeError, id="int"),
    pytest.param(b"a", TypeError, id="bytes"),
]
TAKE_AN_ID: dict[str, Callable[[WorkflowEngine, Any], Awaitable[object]]] = {
    "start": lambda engine, id: engine.start(wait_for(), id=id),
    "to": lambda engine, id: engine.send_event(answer, 1, to=id, allow_unstarted=True),
    "key": lambda engine, id: engine.send_event(answer, 1, key=id),
    "event_id": lambda engine, id: engine.send_event(answer, 1, event_id=id),
    "tag": lambda engine, id: engine.start(wait_for(), tags=["good", id]),
    "query_status": lambda engine, id: engine.query_status(id),
    "query_result": lambda engine, id: engine.query_result(id),
    "cancel": lambda engine, id: engine.cancel(id),
    "terminate": lambda engine, id: engine.terminate(id),
    "history": lambda engine, id: engine.runs.history(id),
    "describe": lambda engine, id: engine.runs.describe(id),
    "after": lambda engine, id: engine.runs.list(after=id),
}


@pytest.mark.parametrize(("id", "error"), BAD_IDS)
async def test_bad_ids_are_refused_everywhere(file: Path, id: Any, error: type[Exception]) -> None:
    """An id, key, tag or name that a store might not hold is refused by every call, and nothing is written."""
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for(), id="a")
        before = contents(file)
        for name, use in TAKE_AN_ID.items():
            with pytest.raises(error) as caught:
                await use(engine, id)
            assert isinstance(caught.value, DurableError), name
        with pytest.raises(error):
            engine.handle(id)
        assert contents(file) == before


@pytest.mark.parametrize("name", ["query_status", "query_result", "cancel", "terminate", "history", "describe"])
async def test_none_is_no_id(name: str) -> None:
    """Where an id is needed `None` is a `TypeError`."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(TypeError):
            await TAKE_AN_ID[name](engine, None)


@pytest.mark.parametrize("id", ["'; drop table workflow; --", "../../x", "<script>", " a\n\x1b[31m", "Å", "x" * 255])
async def test_strange_ids_are_just_ids(file: Path, id: str) -> None:
    """Any other text is a valid id and is returned unchanged."""
    async with WorkflowEngine(file) as engine:
        handle = await engine.start(wait_for(1), id=id, tags=[id])
        await engine.send_event(answer, 2, to=id)
        assert await handle.result(timeout=SOON) == 3
        assert [run.id for run in await engine.runs.list(tag=id)] == [id]


BAD_CALLS: dict[str, tuple[Callable[[WorkflowEngine], Awaitable[object]], type[Exception]]] = {
    "start of an activity": (lambda engine: engine.start(cast(Any, add_one(1))), WrongType),
    "start of a function": (lambda engine: engine.start(cast(Any, wait_for)), WrongType),
    "start of None": (lambda engine: engine.start(cast(Any, None)), WrongType),
    "too many arguments": (lambda engine: engine.start(cast(Any, wait_for)(1, 2)), TypeError),
    "unknown argument": (lambda engine: engine.start(cast(Any, wait_for)(other=2)), TypeError),
    "argument of another type": (lambda engine: engine.start(cast(Any, wait_for)("one")), ValueError),
    "argument with a surrogate": (lambda engine: engine.send_event(Event[str]("s"), "\ud800"), ValueError),
    "tags as one text": (lambda engine: engine.start(wait_for(), tags="red"), WrongType),
    "negative delay": (lambda engine: engine.start(wait_for(), delay=-1), ValueError),
    "endless delay": (lambda engine: engine.start(wait_for(), delay=float("inf")), ValueError),
    "delay past the calendar": (lambda engine: engine.start(wait_for(), delay=timedelta.max), ValueError),
    "delay as text": (lambda engine: engine.start(wait_for(), delay=cast(Any, "1")), TypeError),
    "event as text": (lambda engine: engine.send_event(cast(Any, "guards-answer"), 1), WrongType),
    "payload of another type": (lambda engine: engine.send_event(answer, cast(Any, "one")), ValueError),
    "payload that is no JSON": (lambda engine: engine.send_event(Event[Any]("any"), object()), ValueError),
    "reason of another type": (lambda engine: engine.cancel("a", reason=cast(Any, 5)), TypeError),
    "reason without end": (lambda engine: engine.terminate("a", reason="x" * 1001), ValueError),
    "naive since": (lambda engine: engine.runs.list(since=datetime(2031, 1, 1)), TypeError),
    "age as text": (lambda engine: engine.runs.purge(cast(Any, "1")), TypeError),
}


@pytest.mark.parametrize("name", BAD_CALLS)
async def test_bad_calls_are_refused_and_nothing_is_written(file: Path, name: str) -> None:
    """Every senseless argument is refused with the right kind of error, and no row changes."""
    use, error = BAD_CALLS[name]
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for(), id="a")
        before = contents(file)
        with pytest.raises(error):
            await use(engine)
        assert contents(file) == before
        assert await engine.query_status("a") is WorkflowStatus.SUSPENDED


def test_engine_refuses_what_it_cannot_be_built_of() -> None:
    """Stores and workflows of the wrong kind, and senseless settings, are refused when the engine is built."""
    for store in (None, 5, b"store.db", object):
        with pytest.raises(TypeError):
            WorkflowEngine(cast(Any, store))
    with pytest.raises(TypeError):
        WorkflowEngine("memory://", workflows=[cast(Any, add_one)])
    senseless: list[Any] = [{"max_threads": 0}, {"max_batch": -1}, {"drain": -1}, {"commit_patience": float("nan")}]
    for settings in senseless:
        with pytest.raises(ValueError):
            EngineConfig(**settings)
    wrong: list[Any] = [{"max_threads": True}, {"max_inbox": 1.5}, {"drain": "1"}, {"dead_letter_policy": "discard"}]
    for settings in wrong:
        with pytest.raises(TypeError):
            EngineConfig(**settings)


async def test_two_workflows_of_one_name_are_refused(file: Path) -> None:
    """Another function under a registered name is an error when it is started, and nothing is written."""

    @workflow(name="guards-wait")
    def impostor() -> Durable[int]:
        return (yield from call(int, "1"))

    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for(), id="a")
        before = contents(file)
        with pytest.raises(DurableError, match="guards-wait"):
            await engine.start(impostor(), id="b")
        assert contents(file) == before


@pytest.mark.parametrize("reason", [object(), b"x", "\ud800", "x" * 2000])
async def test_handle_refuses_a_bad_reason(file: Path, reason: Any) -> None:
    """`handle.cancel` checks its reason like `engine.cancel`, and the engine keeps working."""
    async with WorkflowEngine(file) as engine:
        handle = await engine.start(wait_for(), id="a")
        before = contents(file)
        with pytest.raises((TypeError, ValueError)):
            await handle.cancel(reason=reason)
        assert await handle.status() is WorkflowStatus.SUSPENDED
        assert contents(file) == before


@pytest.mark.parametrize("letter", [[1], "x", b"x", 2**70, None, 1.5, True])
async def test_dead_letters_refuse_a_bad_id(file: Path, letter: Any) -> None:
    """A value that is not the id of a letter is refused, and the engine keeps working."""
    async with WorkflowEngine(file) as engine:
        for use in (engine.dead_letters.remove, engine.dead_letters.replay):
            with pytest.raises(DurableError) as caught:
                await use(cast(Any, letter))
            assert isinstance(caught.value, TypeError | ValueError | LookupError)
        with pytest.raises(DurableError):
            await engine.dead_letters.list(after=2**70)
        assert await engine.query_status("a") is None
