"""Workflows by name: an engine that has the code starts them like calls of the function."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable import (
    CodecError,
    Durable,
    Event,
    InvalidValue,
    UnknownWorkflow,
    WorkflowEngine,
    WorkflowRef,
    WrongType,
    WrongWorkflow,
    workflow,
)

pytestmark = pytest.mark.anyio
go = Event[int]("refs-go")


@attrs.frozen
class Order:
    """What is ordered."""

    sku: str
    count: int = 1


@workflow(name="refs-checkout")
def checkout(order: Order, note: str = "none") -> Durable[Order]:
    """Returns its order after an event."""
    yield from go.wait()
    return order


@workflow(name="refs-checkout", version=2)
def newer(order: Order, note: str = "none") -> Durable[Order]:
    """The version after a deploy."""
    return Order(order.sku, 2)
    yield


by_name = WorkflowRef("refs-checkout", returns=Order, version=1)


def engine(*workflows: Any) -> WorkflowEngine:
    """An engine with these workflows."""
    return WorkflowEngine("memory://", workflows=workflows or [checkout])


async def test_start_by_name_is_the_same_call_as_that_of_the_function() -> None:
    """Both have the same stored arguments, defaults included, so the second one starts nothing."""
    async with engine() as running:
        await running.start(by_name(order={"sku": "tea"}), id="w")
        await running.start(checkout(Order("tea")), id="w")
        await running.send_event(go, 1, to="w")
        assert await running.handle("w", by_name).result() == Order("tea")


async def test_result_is_read_as_the_ref_says() -> None:
    """A ref decides how its handle reads the result, also where the code is at hand."""
    plain = WorkflowRef("refs-checkout", returns=dict[str, Any])
    async with engine(newer) as running:
        handle = await running.start(plain(order={"sku": "tea"}))
        assert await handle.result() == {"sku": "tea", "count": 2}


async def test_ref_without_a_version_takes_the_newest() -> None:
    """With a version, it takes that one."""
    async with engine(newer, checkout) as running:
        await running.start(WorkflowRef("refs-checkout")(order={"sku": "tea"}), id="new")
        await running.start(by_name(order={"sku": "tea"}), id="old")
        versions = {run.id: run.version for run in await running.runs.list()}
        assert versions == {"new": 2, "old": 1}


async def test_schedule_takes_a_ref() -> None:
    """Its runs have the version that the engine has found."""
    async with engine(newer) as running:
        await running.schedules.create("s", WorkflowRef("refs-checkout")(order={"sku": "tea"}), every=3600)
        handle = await running.schedules.trigger("s")
        assert await handle.result() == Order("tea", 2)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (by_name(order={"count": 1}), CodecError),
        (by_name(order={"sku": "tea"}, colour="red"), CodecError),
        (by_name(order=Order("tea")), CodecError),
        (WorkflowRef("refs-unknown")(), UnknownWorkflow),
        (by_name, WrongType),
    ],
    ids=["a field is missing", "an unknown parameter", "not plain JSON", "an unknown workflow", "not a call"],
)
async def test_call_by_name_is_checked_by_the_code(call: Any, error: type[Exception]) -> None:
    """The engine that has the code refuses arguments that do not fit it."""
    async with engine() as running:
        with pytest.raises(error):
            await running.start(call, id="w")
        assert await running.query_status("w") is None


async def test_handle_with_a_ref_belongs_to_its_workflow() -> None:
    """An id of another workflow raises on first use."""
    async with engine() as running:
        await running.start(checkout(Order("tea")), id="w")
        with pytest.raises(WrongWorkflow):
            await running.handle("w", WorkflowRef("refs-other")).status()


async def test_ref_is_checked_where_it_is_made() -> None:
    """A name or version that no workflow can have is refused at once."""
    for arguments in ({"name": ""}, {"name": "x", "version": 0}, {"name": "x", "version": True}):
        with pytest.raises(InvalidValue):
            WorkflowRef(**arguments)
