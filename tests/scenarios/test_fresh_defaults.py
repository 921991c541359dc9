"""Mutable arguments and mutable defaults are fresh for every run and every attempt."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, Retry, WorkflowEngine, activity, activity_info, workflow
from durable.model.codec import Codec
from tests.scenarios.kit import Store

pytestmark = pytest.mark.anyio
MARK: Any = object()


@activity
async def collect(item: int, into: list[int] = [], mark: Any = MARK) -> list[int]:  # noqa: B006  # it is the subject
    """Changes its default."""
    assert mark is MARK
    into.append(item)
    return into


@workflow(name="fresh.gather")
def gathering(item: int, seen: list[int] = []) -> Durable[list[int]]:  # noqa: B006
    """Changes its default, and so does its activity."""
    seen.append(item)
    return seen + (yield from collect(item))


async def test_default_is_not_shared_between_runs(store: Store) -> None:
    """Every run and activity starts with the default as written; a default that cannot be stored is not copied."""
    async with WorkflowEngine(store) as engine:
        for number in (1, 2):
            handle = await engine.start(gathering(number), id=str(number))
            assert await handle.result() == [number, number]


def newer(item: int, into: list[int] = [], mark: Any = MARK) -> None:  # noqa: B006
    """A function that gained parameters after a call of it was stored."""


async def test_new_parameter_is_not_shared_between_stored_calls() -> None:
    """A parameter that a stored call does not have gets a fresh copy of its default for each call."""
    coder = Codec().function(newer, "workflow newer")
    (_, first, mark), _ = coder.unpack_arguments('{"item":1}')
    first.append(5)
    (_, second, _), _ = coder.unpack_arguments('{"item":1}')
    assert second == []
    assert mark is MARK


@activity(retry=Retry(max_attempts=3, first_delay=0))
async def fill(items: list[int]) -> list[int]:
    """Changes its argument, and succeeds at the third attempt."""
    items.append(1)
    if activity_info().attempt < 3:
        raise ValueError("not yet")
    return items


@workflow(name="fresh.retried")
def retried() -> Durable[list[int]]:
    """Has an activity that needs three attempts."""
    return (yield from fill([]))


async def test_argument_is_fresh_for_every_attempt(store: Store) -> None:
    """An attempt does not see what a failed attempt did to its arguments."""
    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(retried())).result() == [1]
