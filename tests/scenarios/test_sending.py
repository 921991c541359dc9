"""Workflows that send events to each other, through the engine."""

from __future__ import annotations

import pytest

from durable import Durable, Event, WorkflowEngine, WorkflowTerminated, activity, workflow
from tests.scenarios.kit import Store

pytestmark = pytest.mark.anyio
order, receipt = Event[int]("sending-order"), Event[str]("sending-receipt")
go_on = Event[None]("sending-go-on")


@activity
async def print_receipt(number: int) -> str:
    """Make a text."""
    return f"receipt {number}"


@workflow(name="sending-shop")
def shop(customers: int) -> Durable[int]:
    """Takes orders and answers each customer."""
    for _ in range(customers):
        number = yield from order.wait()
        text = yield from print_receipt(number)
        yield from receipt.send(text, to=f"customer-{number}")
    return customers


@workflow(name="sending-customer")
async def customer(number: int) -> str:
    """Orders, and waits for the receipt."""
    await order.send(number, to="shop")
    return await receipt.wait()


@workflow(name="sending-late")
def late() -> Durable[str]:
    """Sends to a workflow that has ended meanwhile."""
    yield from go_on.wait()
    try:
        yield from order.send(1, to="shop")
    except WorkflowTerminated as error:
        return str(error.status.value)
    return "sent"


async def test_workflows_answer_each_other(store: Store) -> None:
    """An order and its receipt, both sent by bodies; a body may be a generator or a coroutine."""
    async with WorkflowEngine(store) as engine:
        seller = await engine.start(shop(3), id="shop")
        buyers = [await engine.start(customer(n), id=f"customer-{n}") for n in range(3)]
        assert [await buyer.result() for buyer in buyers] == ["receipt 0", "receipt 1", "receipt 2"]
        assert await seller.result() == 3


async def test_ended_target_raises_in_the_body_after_a_restart(store: Store) -> None:
    """The sender slept past the end of its target."""
    async with WorkflowEngine(store) as engine:
        await engine.start(late(), id="late")
        assert await (await engine.start(shop(0), id="shop")).result() == 0
    async with WorkflowEngine(store, workflows=[late]) as engine:
        await engine.send_event(go_on, None, to="late")
        assert await engine.handle("late").result() == "succeeded"
