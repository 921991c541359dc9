"""What the engine logs about failures, and what workflow code can log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from durable import (
    Durable,
    Event,
    OperationMisused,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    activity_info,
    workflow,
)
from durable.telemetry import is_replaying, workflow_logger
from tests.scenarios.kit import SOON, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("log.go")
log = workflow_logger("tests.log")


@activity(name="log.flaky", retry=Retry(max_attempts=2, first_delay=0.001))
async def flaky() -> None:
    """Fails."""
    raise ValueError("closed")


@workflow(name="log.failing")
def failing() -> Durable[None]:
    """Fails after two attempts."""
    yield from flaky()


@workflow(name="log.talking")
def talking() -> Durable[list[bool]]:
    """Logs where it is, and whether this is a replay."""
    log.info("before", extra={"step": 1})
    seen = [is_replaying()]
    yield from go.wait()
    log.info("after")
    return [*seen, is_replaying()]


@workflow(name="log.cleaning")
def cleaning() -> Durable[None]:
    """Says that it cleans up."""
    try:
        yield from go.wait()
    finally:
        log.info("cleaned")


def _lines(caplog: pytest.LogCaptureFixture, name: str) -> list[tuple[int, str, Any, Any, Any]]:
    lines = [line for line in caplog.records if line.name == name]
    return [
        (
            line.levelno,
            line.getMessage(),
            _field(line, "workflow_id"),
            _field(line, "position"),
            _field(line, "attempt"),
        )
        for line in lines
    ]


def _field(line: logging.LogRecord, name: str) -> Any:
    return getattr(line, name, None)


async def test_failures_are_logged_once_with_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Each failed attempt and the failed workflow are one line, with id, position and attempt as fields."""
    with caplog.at_level(logging.INFO, "durable"):
        async with WorkflowEngine("memory://") as engine:
            with pytest.raises(WorkflowFailed):
                await (await engine.start(failing(), id="w")).result(timeout=SOON)
    first, second, ended = _lines(caplog, "durable")
    assert (first[0], *first[2:]) == (logging.INFO, "w", "0", 1)
    assert (second[0], *second[2:]) == (logging.WARNING, "w", "0", 2)
    assert (ended[0], *ended[2:]) == (logging.WARNING, "w", None, None)
    assert "ValueError: closed" in ended[1]


async def test_parking_and_its_end_are_logged(caplog: pytest.LogCaptureFixture, file: Path) -> None:
    """An engine without the code parks and says so; one with it says that the workflow runs again."""
    async with WorkflowEngine(file) as engine:
        await engine.start(talking(), id="w")
    with caplog.at_level(logging.INFO, "durable"):
        async with WorkflowEngine(file, workflows=[]) as engine:
            await engine.send_event(go, 1, to="w")
        async with WorkflowEngine(file) as engine:
            assert await engine.handle("w").result(timeout=SOON) == [True, False]
    messages = [line[1] for line in _lines(caplog, "durable")]
    assert "is parked (unknown code)" in messages[0]
    assert messages[1] == "workflow w (log.talking) is no longer parked"
    assert messages[2].startswith("recovered: 0 running again, 1 no longer parked")


async def test_nothing_is_logged_for_what_goes_well(caplog: pytest.LogCaptureFixture) -> None:
    """A step that succeeds writes no line above DEBUG."""
    with caplog.at_level(logging.INFO, "durable"):
        async with WorkflowEngine("memory://") as engine:
            handle = await engine.start(talking(), id="w")
            await engine.send_event(go, 1, to="w")
            await handle.result(timeout=SOON)
    assert _lines(caplog, "durable") == []


async def test_workflow_logger_is_silent_on_replay(caplog: pytest.LogCaptureFixture, file: Path) -> None:
    """A body's line is written once, although the body is rebuilt from its history after a restart."""
    with caplog.at_level(logging.INFO, "tests.log"):
        async with WorkflowEngine(file) as engine:
            await engine.start(talking(), id="w")
            await waiting(engine, "w", "event")
        async with WorkflowEngine(file) as engine:
            await engine.send_event(go, 1, to="w")
            assert await engine.handle("w").result(timeout=SOON) == [True, False]
    assert [line[1:3] for line in _lines(caplog, "tests.log")] == [("before", "w"), ("after", "w")]


async def test_workflow_logger_is_silent_when_a_body_is_thrown_away(
    caplog: pytest.LogCaptureFixture, file: Path
) -> None:
    """Every stop runs the `finally` block of a waiting body; its line is logged only when the body reaches it."""
    with caplog.at_level(logging.INFO, "tests.log"):
        for _ in range(2):
            async with WorkflowEngine(file) as engine:
                await engine.start(cleaning(), id="w")
                await waiting(engine, "w", "event")
        assert _lines(caplog, "tests.log") == []
        async with WorkflowEngine(file) as engine:
            await engine.send_event(go, 1, to="w")
            await engine.handle("w").result(timeout=SOON)
    assert [line[1:3] for line in _lines(caplog, "tests.log")] == [("cleaned", "w")]


def test_workflow_logger_outside_of_a_workflow_is_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    """Helpers shared with a service log there as usual; only `is_replaying` raises there."""
    with caplog.at_level(logging.INFO, "tests.log"):
        log.info("here")
    assert _lines(caplog, "tests.log") == [(logging.INFO, "here", None, None, None)]
    with pytest.raises(OperationMisused):
        is_replaying()


async def test_activity_knows_its_names() -> None:
    """`activity_info` has the names of the activity and of the workflow."""

    @activity(name="log.named")
    async def named() -> list[str]:
        return [activity_info().activity, activity_info().workflow_name]

    @workflow(name="log.asking")
    def asking() -> Durable[list[str]]:
        return (yield from named())

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(asking())).result(timeout=SOON) == ["log.named", "log.asking"]
