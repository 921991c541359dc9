"""What type checkers infer of loops, and what they refuse. Only checked, never run.

Each mistake carries the error that it must give: an ignore comment that is not needed is an error itself.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import Never, assert_type

from durable import Break, Continue, Durable, Event, Op, activity, gather, loop, race, sleep, workflow


class Order: ...


class Payment:
    amount = 0


@activity
async def charge(order: Order) -> Payment:
    return Payment()


asked = Event[str]("asked")


def paying(orders: list[Order]) -> Durable[Continue[list[Order]] | Break[Payment]]:
    payment = yield from charge(orders[0])
    return Break(payment) if len(orders) == 1 else Continue(orders[1:])


async def paying_async(orders: list[Order]) -> Continue[list[Order]] | Break[Payment]:
    payment = await charge(orders[0])
    return Break(payment) if len(orders) == 1 else Continue(orders[1:])


def serving(served: int) -> Durable[Continue[int]]:
    yield from asked.wait()
    return Continue(served + 1)


def once(order: Order) -> Durable[Break[int]]:
    payment = yield from charge(order)
    return Break(payment.amount)


def perhaps(last: str | None) -> Durable[Continue[str | None] | Break[int | None]]:
    text = yield from asked.wait()
    return Continue(text) if last is None else Break(None)


class DirectEngine:
    def paying(self, orders: list[Order]) -> Durable[Continue[list[Order]] | Break[Payment]]:
        return paying(orders)

    def at_once(self, orders: list[Order]) -> Op[Continue[list[Order]] | Break[Payment]]:
        raise NotImplementedError


@workflow
def results(order: Order) -> Durable[None]:
    assert_type((yield from loop(paying, [order])), Payment)
    assert_type((yield from loop(paying, [])), Payment)
    assert_type((yield from loop(paying_async, [order], keep=0)), Payment)
    assert_type((yield from loop(once, order)), int)
    assert_type((yield from loop(perhaps, None)), int | None)
    assert_type((yield from loop(perhaps, "")), int | None)
    assert_type((yield from loop(DirectEngine().paying, [order])), Payment)
    assert_type((yield from loop(DirectEngine().at_once, [order])), Payment)
    assert_type((yield from loop(paying, [order]).within(5)), Payment)
    assert_type((yield from loop(paying, [order]).within(5).or_default(None)), Payment | None)
    assert_type((yield from loop(paying, [order]).undo(lambda payment: sleep(payment.amount))), Payment)
    assert_type((yield from gather(loop(paying, [order]), loop(once, order))), tuple[Payment, int])


@workflow
async def in_a_coroutine(order: Order) -> Payment:
    assert_type(await loop(paying_async, [order]), Payment)
    won = await race(loop(paying, [order]), loop(serving, 0))
    assert_type(won.value, Payment)
    return won.value


def endless(order: Order) -> Op[Never]:
    return assert_type(loop(serving, 0), Op[Never])


@workflow
def never_ends(order: Order) -> Durable[None]:
    yield from loop(serving, 0)


def no_helper(number: int) -> Continue[int]:
    return Continue(number)


def says_nothing(number: int) -> Durable[int]:
    yield from sleep(1)
    return number


def other_state(number: int) -> Durable[Continue[str] | Break[int]]:
    yield from sleep(1)
    return Continue(str(number))


def two_states(number: int, other: int) -> Durable[Break[int]]:
    yield from sleep(1)
    return Break(number + other)


@workflow
def mistaken(order: Order) -> Durable[None]:
    yield from loop(paying, order)  # type: ignore[arg-type]
    yield from loop(once, "order-42")  # type: ignore[arg-type]
    yield from loop(no_helper, 1)  # type: ignore[arg-type]
    yield from loop(says_nothing, 1)  # type: ignore[arg-type]
    yield from loop(other_state, 1)  # type: ignore[arg-type]
    yield from loop(two_states, 1)  # type: ignore[arg-type]
    yield from loop(once(order), order)  # type: ignore[call-overload]
    yield from loop(once, order, keep="all")  # type: ignore[call-overload]
    text: str = yield from loop(once, order)  # type: ignore[assignment]
    forgotten = loop(once, order)
    forgotten + 1  # type: ignore[operator]
    yield from forgotten
    del text
