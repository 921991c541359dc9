"""What type checkers refuse. Only checked, never run.

Each mistake carries the error that it must give: an ignore comment that is not needed is an error itself, so a mistake
that is no longer noticed fails the check.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from durable import (
    Durable,
    Event,
    SyncWorkflowEngine,
    WorkflowEngine,
    activity,
    gather,
    patched,
    pause,
    removed,
    saga,
    spawn,
    workflow,
)


class Order: ...


class Payment:
    amount = 0


class Decision: ...


@activity
async def charge(order: Order, *, times: int = 1) -> Payment:
    return Payment()


approval = Event[Decision]("approval")


@workflow
def bare_yield(order: Order) -> Durable[int]:
    payment = yield charge(order)
    return payment.amount  # type: ignore[no-any-return, attr-defined]


@workflow
def forgotten_yield(order: Order) -> Durable[int]:
    payment = charge(order)
    yield from approval.wait()
    return payment.amount  # type: ignore[no-any-return, attr-defined]


@workflow
async def forgotten_await(order: Order) -> int:
    payment = charge(order)
    return payment.amount  # type: ignore[no-any-return, attr-defined]


@workflow
def wrong_arguments(order: Order) -> Durable[None]:
    yield from charge("order-42")  # type: ignore[arg-type]
    yield from charge()  # type: ignore[call-arg]
    yield from charge(order, time=2)  # type: ignore[call-arg]
    yield from charge(order, times="twice")  # type: ignore[arg-type]
    yield from approval.wait(7)  # type: ignore[arg-type]
    yield from approval.wait().within("3 days")  # type: ignore[arg-type]
    yield from gather(charge(order), 7)  # type: ignore[call-overload]
    yield from pause(returns=bool, expires_after="3 days")  # type: ignore[call-overload]
    if patched(7):  # type: ignore[arg-type]
        yield from removed()  # type: ignore[call-arg]
    yield from pause(prompt="no type")  # type: ignore[call-overload]


@activity
async def refund(payment: Payment) -> None: ...


def no_operation(payment: Payment) -> None: ...


@workflow
def wrong_undo(order: Order) -> Durable[None]:
    yield from charge(order).undo(charge)  # type: ignore[arg-type]
    yield from charge(order).undo(refund(Payment()))  # type: ignore[arg-type]
    yield from charge(order).undo(no_operation)  # type: ignore[arg-type]
    yield from charge(order).undo(lambda payment: payment.amount)  # type: ignore[arg-type, return-value]
    yield from charge(order).undo(lambda payment: refund(payment.id))  # type: ignore[attr-defined]
    text: str = yield from saga(charge(order).undo(refund))  # type: ignore[assignment]
    yield from saga(7)  # type: ignore[arg-type]
    del text


@workflow
def wrong_result(order: Order) -> Durable[str]:
    text: str = yield from charge(order)  # type: ignore[assignment]
    (pdf,) = yield from gather(charge(order), charge(order))  # type: ignore[misc]
    sure: str = yield from pause(returns=bool)  # type: ignore[assignment]
    del text, pdf, sure
    return 7  # type: ignore[return-value]


@workflow
def wrong_spawn(order: Order) -> Durable[None]:
    yield from spawn(wrong_result)  # type: ignore[arg-type]
    yield from spawn(wrong_result("order-42"))  # type: ignore[arg-type]
    yield from spawn(wrong_result(order), on_parent_close="keep")  # type: ignore[arg-type]
    handle = yield from spawn(wrong_result(order))
    number: int = yield from handle.result()  # type: ignore[assignment]
    text: str = handle.result()  # type: ignore[assignment]
    del number, text


@workflow
def wrong_round(order: Order) -> Durable[None]:
    yield from approval.wait()
    raise wrong_round.continue_as("order-42")  # type: ignore[arg-type]


@workflow  # type: ignore[arg-type]
def no_generator(order: Order) -> int:
    return 7


async def wrong_service(engine: WorkflowEngine, order: Order) -> None:
    await engine.send_event(approval, "yes", to="order-42")  # type: ignore[misc]
    await engine.send_event("approval", Decision(), to="order-42")  # type: ignore[arg-type]
    await engine.start(wrong_round("order-42"))  # type: ignore[arg-type]
    await engine.start(wrong_round)  # type: ignore[arg-type]
    await engine.schedules.create("nightly", wrong_result, cron="@daily")  # type: ignore[call-overload]
    await engine.schedules.create("nightly", wrong_result(order), every="5")  # type: ignore[call-overload]
    await engine.schedules.create("nightly", wrong_result(order), every=5, overlap="skip")  # type: ignore[call-overload]
    await engine.schedules.create("nightly", wrong_result("order-42"), every=5)  # type: ignore[arg-type]
    handle = await engine.start(wrong_result(order))
    number: int = await handle.result()  # type: ignore[assignment]
    size: int = await handle.progress(str)  # type: ignore[arg-type, assignment]
    for update in handle.watch():  # type: ignore[attr-defined]
        del update
    del number, size


def wrong_service_without_a_loop(engine: SyncWorkflowEngine, order: Order) -> None:
    engine.send_event(approval, 7)  # type: ignore[misc]
    handle = engine.start(wrong_result(order))
    number: int = handle.result()  # type: ignore[assignment]
    size: int = handle.progress(str)  # type: ignore[arg-type, assignment]
    handle.result(timeout="5")  # type: ignore[arg-type]
    engine.start(wrong_result(order), id=7)  # type: ignore[arg-type]
    engine.cancel("order-42", because="enough")  # type: ignore[call-arg]
    engine.pauses.list("order-42")  # type: ignore[call-arg]
    engine.runs.purge("a day")  # type: ignore[arg-type]
    engine.schedules.create("nightly", wrong_result(order))  # type: ignore[call-overload]
    engine.schedules.create("nightly", wrong_result(order), every="5")  # type: ignore[call-overload]
    SyncWorkflowEngine("orders.db", flows=[wrong_result])  # type: ignore[call-arg]
    SyncWorkflowEngine(7)  # type: ignore[arg-type]
    del number, size
