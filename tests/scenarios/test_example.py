"""The example of the front page, from the first line to the receipt."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from durable import (
    Delivered,
    Durable,
    Event,
    Retry,
    TimedOut,
    WorkflowDef,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio


@attrs.frozen
class Order:
    """What a customer wants."""

    number: int
    cents: int


@attrs.frozen
class Payment:
    """What a customer paid."""

    reference: str


@attrs.frozen
class Decision:
    """What a person said."""

    ok: bool
    by: str


@attrs.frozen
class Receipt:
    """What a customer gets."""

    payment: Payment
    by: str
    pdf: bytes


@activity(retry=Retry(max_attempts=5), timeout=timedelta(seconds=30))
async def charge(order: Order) -> Payment:
    """Take the money."""
    return Payment(f"paid {order.cents}")


@activity
def render(order: Order) -> bytes:
    """Print the receipt."""
    return f"order {order.number}".encode()


@activity
async def notify(order: Order) -> None:
    """Tell the customer."""


approval = Event[Decision]("scenario-approval")


@workflow(name="scenario-checkout")
def checkout(order: Order) -> Durable[Receipt]:
    """As in the documentation."""
    payment = yield from charge(order)
    decision = yield from approval.wait().within(timedelta(days=3))
    yield from sleep(timedelta(hours=1))
    pdf, _ = yield from gather(render(order), notify(order))
    return Receipt(payment, decision.by, pdf)


@workflow(name="scenario-checkout-async")
async def checkout_async(order: Order) -> Receipt:
    """The same with `await`."""
    payment = await charge(order)
    decision = await approval.wait().within(timedelta(days=3))
    await sleep(timedelta(hours=1))
    pdf, _ = await gather(render(order), notify(order))
    return Receipt(payment, decision.by, pdf)


ORDER = Order(42, 1999)
RECEIPT = Receipt(Payment("paid 1999"), "ann", b"order 42")


@pytest.mark.parametrize("body", [checkout, checkout_async], ids=["generator", "async def"])
async def test_example_runs_to_its_receipt(store: Store, body: WorkflowDef[[Order], Receipt]) -> None:
    """Charge, approval, an hour of sleep and two things at once end in the receipt, in both ways to write it."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(body(ORDER), id="order-42")
        await waiting(engine, "order-42", "event")
        answer = await engine.send_event(approval, Decision(ok=True, by="ann"), to="order-42")
        assert answer == Delivered(("order-42",))
        await move(engine, clock, timedelta(minutes=59))
        assert await engine.query_status("order-42") is WorkflowStatus.SUSPENDED
        await move(engine, clock, timedelta(minutes=1))
        assert await handle.result(timeout=SOON) == RECEIPT
        assert await engine.query_result("order-42") == RECEIPT


async def test_example_goes_on_in_every_next_engine(store: Store) -> None:
    """With a new engine after every step the receipt is the same, and the result is kept long after the end."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(checkout(ORDER), id="order-42")
        await waiting(engine, "order-42", "event")
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.send_event(approval, Decision(ok=True, by="ann"), to="order-42")
    async with WorkflowEngine(store, clock=clock) as engine:
        await waiting(engine, "order-42", "timer")
    clock.advance(timedelta(hours=1))
    async with WorkflowEngine(store, clock=clock) as engine:
        assert await engine.handle("order-42").result(timeout=SOON) == RECEIPT
    async with WorkflowEngine(store, clock=clock) as engine:
        assert await engine.handle("order-42").result(timeout=SOON) == RECEIPT


async def test_example_times_out_after_three_days(store: Store) -> None:
    """Without an approval the wait raises `TimedOut` at its limit, counted from its beginning over a restart."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(checkout(ORDER), id="order-42")
        await waiting(engine, "order-42", "event")
    clock.advance(timedelta(days=2, hours=23))
    async with WorkflowEngine(store, clock=clock) as engine:
        assert await engine.query_status("order-42") is WorkflowStatus.SUSPENDED
        await move(engine, clock, timedelta(hours=1))
        with pytest.raises(Exception, match="within") as caught:
            await engine.handle("order-42").result(timeout=SOON)
        assert isinstance(caught.value.__cause__, TimedOut)


async def test_two_runs_of_one_workflow_do_not_meet(store: Store) -> None:
    """Two orders at once each get their own approval and their own receipt."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        first = await engine.start(checkout(Order(1, 100)))
        second = await engine.start(checkout(Order(2, 200)))
        assert first.id != second.id
        for handle, name in ((second, "bob"), (first, "ann")):
            await waiting(engine, handle.id, "event")
            await engine.send_event(approval, Decision(ok=True, by=name), to=handle.id)
        await move(engine, clock, timedelta(hours=1))
        assert await first.result(timeout=SOON) == Receipt(Payment("paid 100"), "ann", b"order 1")
        assert await second.result(timeout=SOON) == Receipt(Payment("paid 200"), "bob", b"order 2")
