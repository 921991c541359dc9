"""The checkout of an order: the workflow, its activities, and the event that it waits for."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import attrs

from durable import Durable, Event, NonRetryable, Retry, activity, activity_info, gather, sleep, workflow
from examples import outside


@attrs.frozen(kw_only=True)
class Order:
    """What a customer wants."""

    id: str
    item: str
    amount: Decimal
    email: str


@attrs.frozen
class Payment:
    """Money that the bank has taken."""

    reference: str
    amount: Decimal


@attrs.frozen
class Decision:
    """A person's decision about an order."""

    ok: bool
    by: str


@attrs.frozen(kw_only=True)
class Receipt:
    """The result of a finished order."""

    payment: Payment
    approved_by: str
    parcel: str
    text: str


class OrderRejected(Exception):
    """The order was not approved; the money was refunded."""


class CardDeclined(NonRetryable):
    """The bank will not pay, however often we ask."""


approval = Event[Decision]("approval")
NO_ANSWER = Decision(ok=False, by="nobody within three days")


@activity
async def reserve_stock(order: Order) -> str:
    """Ask the warehouse to reserve the item; the result is its shelf."""
    return await outside.ask("reserve_stock", answer=f"shelf 7 for {order.id}")


@activity(retry=Retry(max_attempts=5), timeout=timedelta(seconds=30))
async def charge(order: Order) -> Payment:
    """Take the money. The key is the same in every attempt, so the bank can tell a repeated request from a new one."""
    key = activity_info().idempotency_key
    reference = await outside.ask("charge", answer=f"payment for {key}")
    if reference == "declined":
        raise CardDeclined(order.id)
    return Payment(reference, order.amount)


@activity
async def refund(payment: Payment) -> None:
    """Refund the money."""
    await outside.ask("refund", answer=payment.reference)


@activity(timeout=timedelta(minutes=5))
async def ship(order: Order, shelf: str) -> str:
    """Ask the carrier to fetch the parcel; the result is its number."""
    return await outside.ask("ship", answer=f"parcel 1, {order.item}, from {shelf}")


@activity
def render_receipt(order: Order, payment: Payment, decision: Decision) -> str:
    """Lay out the receipt. A plain function, so it runs in a worker thread and may block."""
    outside.ask_blocking("render_receipt")
    return f"{order.item:<24}{order.amount:>8}\napproved by {decision.by}\n{payment.reference}"


@activity
async def send_email(to: str, text: str) -> None:
    """Send the receipt."""
    await outside.ask("send_email", answer=f"{len(text)} characters to {to}")


def mail_receipt(order: Order, payment: Payment, decision: Decision) -> Durable[str]:
    """A helper with two activities; `gather` runs it in parallel with the shipping."""
    text = yield from render_receipt(order, payment, decision)
    yield from send_email(order.email, text)
    return text


@workflow
def checkout(order: Order) -> Durable[Receipt]:
    """Reserve, charge, ask a person, ship; survives a crash at any point."""
    shelf = yield from reserve_stock(order)
    payment = yield from charge(order)
    decision = yield from approval.wait().within(timedelta(days=3)).or_default(NO_ANSWER)
    if not decision.ok:
        yield from refund(payment)
        raise OrderRejected(f"{order.id}: {decision.by}")
    parcel, text = yield from gather(ship(order, shelf), mail_receipt(order, payment, decision))
    yield from sleep(timedelta(seconds=0.5))  # time for the customer to cancel; days, in a real shop
    return Receipt(payment=payment, approved_by=decision.by, parcel=parcel, text=text)
