"""Context variables that an activity sets stay in it, whatever their values are."""

from __future__ import annotations

from contextvars import ContextVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from durable import Durable, EngineConfig, Retry, WorkflowEngine, activity, gather, workflow
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio
colour = ContextVar("colour", default="clean")


odd = ContextVar[object]("odd", default=None)


class Odd:
    """Cannot be compared, like an array."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Refuse."""
        raise ValueError("the truth value is ambiguous")


async def test_context_of_an_activity_stays_in_it() -> None:
    """A context variable that one activity sets does not reach the next activities."""

    @activity
    async def dirty() -> str:
        colour.set("dirty")
        await anyio.lowlevel.checkpoint()
        return colour.get()

    @activity
    async def look() -> str:
        return colour.get()

    @workflow(name="contexts.colours")
    def body() -> Durable[list[str]]:
        return list((yield from gather(dirty(), look(), look())))

    async with WorkflowEngine("memory://", config=EngineConfig(max_running_activities=1)) as engine:
        handle = await engine.start(body())
        assert await handle.result(timeout=SOON) == ["dirty", "clean", "clean"]


async def test_context_with_values_that_cannot_be_compared() -> None:
    """A context variable whose value refuses `==` does no harm."""

    @activity(retry=Retry.never())
    async def set_odd() -> int:
        odd.set(Odd())
        return 1

    @workflow(name="contexts.odd")
    def body() -> Durable[int]:
        return (yield from set_odd())

    before = odd.set(Odd())
    try:
        async with WorkflowEngine("memory://") as engine:
            for _ in range(3):
                assert await (await engine.start(body())).result(timeout=SOON) == 1
    finally:
        odd.reset(before)
