"""A second start under an existing id is a repetition, or an error that says what differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from durable import Durable, Event, WorkflowAlreadyExists, WorkflowEngine, workflow

pytestmark = pytest.mark.anyio
go = Event[int]("differences-go")


@workflow(name="differences")
def order(sku: str, count: int = 1, note: str | None = None) -> Durable[int]:
    """Waits."""
    return (yield from go.wait())


@workflow(name="differences-other")
def other(sku: str) -> Durable[int]:
    """Another workflow."""
    return (yield from go.wait())


@workflow(name="differences-rounds")
def rounds(count: int) -> Durable[int]:
    """Continues with another number."""
    taken = yield from go.wait()
    raise rounds.continue_as(count + taken)


def newer() -> Any:
    """The first one, after a deploy."""

    @workflow(name="differences", version=2)
    def newer_order(sku: str, count: int = 1, note: str | None = None) -> Durable[int]:
        return (yield from go.wait())

    return newer_order


SAME: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "the very same": (lambda: order("tea"), {"tags": ["eu", "b2b"], "delay": 60}),
    "a default spelled out": (lambda: order("tea", count=1), {"tags": ("eu", "b2b"), "delay": 60.0}),
    "another version": (lambda: newer()("tea"), {"tags": ["eu", "b2b"], "delay": 60}),
    "tags in another order": (lambda: order("tea"), {"tags": ["b2b", "eu"], "delay": 60}),
}


@pytest.mark.parametrize("how", SAME)
async def test_repeated_start_finds_the_first(how: str) -> None:
    """The same call with the same tags and delay is a repetition, however it is written."""
    async with WorkflowEngine("memory://", workflows=[order]) as engine:
        await engine.start(order("tea"), id="w", tags=["eu", "b2b"], delay=60)
        call, options = SAME[how]
        assert (await engine.start(call(), id="w", **options)).id == "w"
        assert await engine.runs.count() == 1


async def test_tags_of_a_set_are_stored_in_order() -> None:
    """A set has another order in every process, but its stored form has not. A list keeps its order."""
    async with WorkflowEngine("memory://") as engine:
        names = [f"tag-{number}" for number in range(12)]
        await engine.start(order("tea"), id="set", tags=set(names))
        await engine.start(order("tea"), id="list", tags=["eu", "b2b"])
        tags = {run.id: run.tags for run in await engine.runs.list()}
    assert tags == {"set": tuple(sorted(names)), "list": ("eu", "b2b")}


OTHER: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "tags": (lambda: order("tea"), {"delay": 60, "tags": ["us"]}, 'tags=["us"], but it was started with tags=["eu"]'),
    "no tags": (lambda: order("tea"), {"delay": 60}, 'tags=[], but it was started with tags=["eu"]'),
    "delay": (lambda: order("tea"), {"tags": ["eu"], "delay": 5}, "delay=5 s, but it was started with delay=60 s"),
    "no delay": (lambda: order("tea"), {"tags": ["eu"]}, "delay=0 s, but it was started with delay=60 s"),
    "argument": (
        lambda: order("tea", 2, "x" * 100),
        {},
        f'count=2, but it was started with count=1; note="{"x" * 56}..., but it was started with note=null;',
    ),
    "name": (lambda: other("tea"), {}, "this call is for 'differences-other' version 1, it runs version 1;"),
    "version and argument": (lambda: newer()("mate"), {}, 'sku="mate", but it was started with sku="tea" (version 2'),
}


@pytest.mark.parametrize("what", OTHER)
async def test_other_start_under_a_known_id_says_what_differs(what: str) -> None:
    """Arguments, name, tags or delay that differ are an error with both values, and nothing changes."""
    async with WorkflowEngine("memory://", workflows=[order, other]) as engine:
        await engine.start(order("tea"), id="w", tags=["eu"], delay=60)
        call, options, expected = OTHER[what]
        with pytest.raises(WorkflowAlreadyExists, match=f"^workflow 'w' already exists as .*{re.escape(expected)}"):
            await engine.start(call(), id="w", **options)
        assert [(run.id, run.tags) for run in await engine.runs.list()] == [("w", ("eu",))]


async def test_start_that_has_continued_is_compared_by_its_first_call() -> None:
    """After `continue_as` the first call still finds the run; the error for another says that the arguments changed."""
    async with WorkflowEngine("memory://") as engine:
        await engine.start(rounds(1), id="w")
        await engine.send_event(go, 5, to="w")
        while (await engine.runs.describe("w")).round == 0:
            await engine.query_status("w")
        assert (await engine.start(rounds(1), id="w")).id == "w"
        with pytest.raises(WorkflowAlreadyExists, match="it has continued with others since"):
            await engine.start(rounds(6), id="w")
