"""Which workflow a line of the log belongs to, for anyone's logger."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from durable import Durable, WorkflowEngine, activity, workflow
from durable.telemetry import Context, ContextFilter, current
from tests.telemetry.kit import SOON

pytestmark = pytest.mark.anyio
log = logging.getLogger("tests.shop")
seen: list[Context | None] = []


@activity(name="context.loop")
async def on_the_loop() -> None:
    """Notes and logs."""
    seen.append(current())
    log.warning("loop", extra={"attempt": "mine"})


@activity(name="context.thread")
def in_a_thread() -> None:
    """Notes and logs."""
    seen.append(current())
    log.warning("thread")


@workflow(name="context.flow")
def flow() -> Durable[None]:
    """Notes and logs, then calls both."""
    seen.append(current())
    log.warning("body")
    yield from on_the_loop()
    yield from in_a_thread()


class Lines(logging.Handler):
    """Keeps the lines with their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(ContextFilter())
        self.lines: list[tuple[object, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        fields = ("workflow_id", "workflow_name", "position", "attempt", "activity")
        self.lines.append((record.getMessage(), *(getattr(record, field) for field in fields)))


@pytest.fixture
def lines() -> Iterator[list[tuple[object, ...]]]:
    """The lines of the logger `tests.shop`, through the filter."""
    handler = Lines()
    log.addHandler(handler)
    yield handler.lines
    log.removeHandler(handler)


async def test_context_is_known_in_bodies_and_activities(lines: list[tuple[object, ...]]) -> None:
    """`current` and the filter know the workflow, and in an activity also its place; a field of the line wins."""
    seen.clear()
    async with WorkflowEngine("memory://") as engine:
        await (await engine.start(flow(), id="w")).result(timeout=SOON)
    log.warning("outside")
    assert seen == [
        Context(workflow_id="w", workflow_name="context.flow"),
        Context(workflow_id="w", workflow_name="context.flow", position="0", attempt=1, activity="context.loop"),
        Context(workflow_id="w", workflow_name="context.flow", position="1", attempt=1, activity="context.thread"),
    ]
    assert lines == [
        ("body", "w", "context.flow", None, None, None),
        ("loop", "w", "context.flow", "0", "mine", "context.loop"),
        ("thread", "w", "context.flow", "1", 1, "context.thread"),
        ("outside", None, None, None, None, None),
    ]
    assert current() is None
