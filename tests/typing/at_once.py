"""What type checkers infer of several things at once, and what they refuse. Only checked, never run.

Each mistake carries the error that it must give: an ignore comment that is not needed is an error itself.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from datetime import datetime
from typing import assert_type

from durable import (
    AllFailed,
    Durable,
    Event,
    Outcome,
    Raised,
    Returned,
    Won,
    activity,
    fan_out,
    first_success,
    gather,
    race,
    settle,
    sleep,
    workflow,
)


class Order: ...


class Payment:
    amount = 0


@activity
async def charge(order: Order) -> Payment:
    return Payment()


@activity
def render(order: Order) -> bytes:
    return b""


approval = Event[str]("approval")


def helper(order: Order) -> Durable[int]:
    payment = yield from charge(order)
    return payment.amount


async def helper_async(order: Order) -> float:
    payment = await charge(order)
    return payment.amount


@workflow
def child(order: Order) -> Durable[str]:
    return (yield from approval.wait())


def plain(order: Order) -> int:
    return 7


@workflow
def settled(order: Order) -> Durable[None]:
    assert_type((yield from settle()), tuple[()])
    assert_type((yield from settle(charge(order))), tuple[Outcome[Payment]])
    pair = yield from settle(charge(order), helper(order))
    assert_type(pair, tuple[Outcome[Payment], Outcome[int]])
    first, second = pair
    match first:
        case Returned(payment):
            assert_type(payment, Payment)
        case Raised(error):
            assert_type(error, BaseException)
    if isinstance(second, Returned):
        assert_type(second.value, int)
    five = yield from settle(charge(order), render(order), helper_async(order), child(order), sleep(1))
    assert_type(five, tuple[Outcome[Payment], Outcome[bytes], Outcome[float], Outcome[str], Outcome[datetime]])
    many = yield from settle(*[charge(order) for _ in range(10)])
    assert_type(many, tuple[Outcome[Payment], ...])
    assert_type([outcome.value for outcome in many if isinstance(outcome, Returned)], list[Payment])
    nested = yield from gather(settle(charge(order), render(order)), race(sleep(1), approval.wait()))
    assert_type(nested, tuple[tuple[Outcome[Payment], Outcome[bytes]], Won[datetime | str]])


@workflow
async def first(order: Order) -> None:
    assert_type(await first_success(charge(order), render(order)), Won[Payment | bytes])
    three = await first_success(charge(order), helper(order), helper_async(order))
    assert_type(three, Won[Payment | int | float])
    four = await first_success(charge(order), render(order), child(order), sleep(1))
    assert_type(four, Won[Payment | bytes | str | datetime])
    named = await first_success(visa=charge(order), mastercard=charge(order))
    assert_type(named, Won[Payment])
    assert_type(named.key, int | str)
    assert_type(named.value.amount, int)
    assert_type(await first_success(charge(order), render(order)).within(5), Won[Payment | bytes])
    try:
        await race(visa=charge(order), mastercard=charge(order))
    except AllFailed as failed:
        assert_type(failed.errors, dict[int | str, Exception])


def order_of(number: int) -> Order:
    return Order()


@workflow
def fanned(order: Order, numbers: list[int]) -> Durable[None]:
    assert_type((yield from fan_out(charge, [order, order])), list[Payment])
    assert_type((yield from fan_out(child, {order}, limit=3)), list[str])
    assert_type((yield from fan_out(helper, (order, order))), list[int])
    assert_type((yield from fan_out(helper_async, iter([order]))), list[float])
    assert_type((yield from fan_out(lambda number: charge(order_of(number)), numbers, limit=10)), list[Payment])
    settled = yield from fan_out(lambda number: settle(charge(order_of(number))), numbers)
    assert_type(settled, list[tuple[Outcome[Payment]]])
    assert_type((yield from gather(fan_out(charge, [order]), sleep(1))), tuple[list[Payment], datetime])


@workflow
def mistaken(order: Order) -> Durable[object]:
    bare = yield settle(charge(order))
    bare.clear()  # type: ignore[attr-defined]
    forgotten = settle(charge(order))
    forgotten[0]  # type: ignore[index]
    yield from settle(charge(order), 7)  # type: ignore[call-overload]
    yield from settle(charge("order-42"))  # type: ignore[arg-type]
    yield from first_success(visa=7)  # type: ignore[call-overload]
    yield from fan_out(charge, [1, 2])  # type: ignore[arg-type]
    yield from fan_out(charge, [order], limit="two")  # type: ignore[arg-type]
    yield from fan_out(plain, [order])  # type: ignore[arg-type]
    text: str = yield from fan_out(charge, [order])  # type: ignore[assignment]
    del text
    (single,) = yield from settle(charge(order), render(order))  # type: ignore[misc]
    both = yield from settle(charge(order), render(order))
    won = yield from first_success(charge(order), render(order))
    return single, both[0].value, won.value.amount  # type: ignore[union-attr]
