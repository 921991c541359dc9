"""Children whose parent ends before they do."""

from __future__ import annotations

import pytest

from durable import (
    Durable,
    Event,
    WorkflowEngine,
    WorkflowStatus,
    race,
    workflow,
)
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio
answer = Event[int]("bug-children-answer")


@workflow(name="bug-children-ask")
def ask(times: int) -> Durable[int]:
    """A child that waits for a number."""
    return times * (yield from answer.wait())


@workflow(name="bug-children-parent")
def parent(times: int) -> Durable[int]:
    """A parent of one."""
    return 1 + (yield from ask(times))


@pytest.mark.parametrize("how", ["cancel", "terminate"])
async def test_ending_a_parent_cancels_the_child_it_awaits(store: Store, how: str) -> None:
    """However a parent is ended, the child that it waits for is cancelled too."""
    async with WorkflowEngine(store) as engine:
        await engine.start(parent(1), id="p")
        assert await (engine.cancel("p") if how == "cancel" else engine.terminate("p"))
        for id in ("p", "p/0"):
            assert await engine.query_status(id) is WorkflowStatus.CANCELLED


async def test_child_that_lost_a_race_is_cancelled(store: Store) -> None:
    """The losing branch's child is cancelled; the winner's result is the race's."""

    @workflow(name="race-of-children")
    def body() -> Durable[int]:
        won = yield from race(slow=ask(1), quick=ask(2).with_id("quick"))
        assert won.key == "quick"
        return int(won.value)

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(), id="p")
        await engine.send_event(answer, 5, to="quick")
        assert await handle.result(timeout=SOON) == 10
        assert await engine.query_status("p/0.0.0") is WorkflowStatus.CANCELLED
