"""What type checkers infer. Only checked, never run: `assert_type` fails the check where another type is inferred."""

from __future__ import annotations

import random as random_module
import uuid as uuid_module
from datetime import datetime, timedelta, timezone
from typing import Any, assert_type

from durable import (
    ActivityDef,
    Call,
    ChildHandle,
    Delivered,
    Description,
    Durable,
    Event,
    FailedUndo,
    HistoryEntry,
    OnParentClose,
    Op,
    OpenPause,
    Overlap,
    OwedUndo,
    PauseExpired,
    Queued,
    RecoveryReport,
    Retry,
    ScheduleSummary,
    SyncWorkflowEngine,
    SyncWorkflowHandle,
    TimedOut,
    Won,
    WorkflowCall,
    WorkflowDef,
    WorkflowEngine,
    WorkflowHandle,
    WorkflowInfo,
    WorkflowStatus,
    WorkflowSummary,
    WorkflowUpdate,
    activity,
    call,
    failed_undos,
    gather,
    info,
    now,
    patched,
    pause,
    publish,
    race,
    random,
    removed,
    saga,
    sleep,
    sleep_until,
    spawn,
    uuid,
    workflow,
)


class Order: ...


class Payment:
    amount = 0


class Decision:
    by = ""


class Receipt:
    def __init__(self, payment: Payment, by: str) -> None: ...


@activity(retry=Retry(max_attempts=5), timeout=timedelta(seconds=30))
async def charge(order: Order) -> Payment:
    return Payment()


@activity
def render(order: Order, *, page: int = 1) -> bytes:
    return b""


@activity
async def notify(order: Order) -> None: ...


def plain(text: str) -> int:
    return len(text)


approval = Event[Decision]("approval")
command = Event[int | str]("command")


@workflow
def checkout(order: Order) -> Durable[Receipt]:
    payment = yield from charge(order)
    assert_type(payment, Payment)
    decision = yield from approval.wait().within(timedelta(days=3))
    assert_type(decision, Decision)
    assert_type((yield from sleep(timedelta(hours=1))), datetime)
    assert_type((yield from sleep_until(datetime.now(timezone.utc))), datetime)
    pdf, nothing = yield from gather(render(order), notify(order))
    assert_type(pdf, bytes)
    assert_type(nothing, None)
    return Receipt(payment, decision.by)


@workflow(name="checkout-2", version=2)
async def checkout_async(order: Order) -> Receipt:
    payment = await charge(order)
    assert_type(payment, Payment)
    decision = await approval.wait(key="eu").within(60)
    assert_type(decision, Decision)
    assert_type(await gather(render(order, page=2), notify(order)), tuple[bytes, None])
    assert_type(await checkout(order), Receipt)
    return Receipt(payment, decision.by)


def helper(order: Order) -> Durable[str]:
    yield from notify(order)
    return "told"


async def helper_async(order: Order) -> float:
    await notify(order)
    return 0.5


@workflow
def several(order: Order) -> Durable[None]:
    assert_type((yield from gather()), tuple[()])
    assert_type((yield from gather(charge(order))), tuple[Payment])
    both = yield from gather(helper(order), helper_async(order), approval.wait())
    assert_type(both, tuple[str, float, Decision])
    nested = yield from gather(gather(charge(order), render(order)), sleep(1))
    assert_type(nested, tuple[tuple[Payment, bytes], datetime])
    many = yield from gather(*[charge(order) for _ in range(10)])
    assert_type(many, tuple[Payment, ...])
    assert_type((yield from race(charge(order), sleep(60))), Won[Payment | datetime])
    assert_type((yield from race(first=charge(order), second=charge(order))), Won[Payment])
    assert_type((yield from helper(order)), str)


@workflow
def waits(order: Order) -> Durable[None]:
    assert_type((yield from command.wait()), int | str)
    assert_type((yield from approval.wait().within(5).or_default(None)), Decision | None)
    assert_type((yield from charge(order).within(5).or_default("late")), Payment | str)
    try:
        yield from charge(order).within(5)
    except TimedOut as late:
        assert_type(late.seconds, float)


@activity
async def refund(payment: Payment) -> None: ...


def give_back(payment: Payment) -> Durable[None]:
    yield from refund(payment)


async def give_back_async(payment: Payment) -> None:
    await refund(payment)


@workflow
def undoes(order: Order) -> Durable[None]:
    assert_type((yield from charge(order).undo(refund)), Payment)
    assert_type((yield from charge(order).undo(give_back)), Payment)
    assert_type((yield from charge(order).undo(give_back_async)), Payment)
    assert_type((yield from charge(order).undo(lambda payment: notify(order) if payment.amount else sleep(1))), Payment)
    assert_type(
        (yield from charge(order).within(5).or_default(None).undo(lambda paid: call(str, paid))), Payment | None
    )
    assert_type((yield from gather(charge(order).undo(refund), render(order))), tuple[Payment, bytes])
    assert_type((yield from checkout(order).undo(checkout_again)), Receipt)
    assert_type((yield from saga(helper(order))), str)
    assert_type((yield from saga(helper_async(order))), float)
    assert_type((yield from saga(charge(order).undo(refund)).within(60)), Payment)
    assert_type(failed_undos(ValueError()), tuple[FailedUndo, ...])


@workflow
def checkout_again(receipt: Receipt) -> Durable[None]:
    yield from sleep(1)


@workflow
def questions(order: Order) -> Durable[None]:
    op: Op[Decision] = pause(returns=Decision, prompt={"order": 42}, expires_after=timedelta(days=3))
    assert_type((yield from op), Decision)
    assert_type((yield from pause(returns=bool).or_default(None)), bool | None)
    assert_type((yield from pause(returns=None, prompt="press any key")), None)
    assert_type((yield from pause(returns=list[int])), list[int])
    assert_type((yield from gather(pause(returns=int), charge(order))), tuple[int, Payment])
    try:
        yield from pause(returns=str, expires_after=60)
    except PauseExpired as late:
        assert_type(late.pause_id, str)


@workflow
def children(order: Order, left: int) -> Durable[int]:
    assert_type((yield from checkout(order)), Receipt)
    assert_type((yield from checkout_async(order)), Receipt)
    assert_type((yield from checkout(order).with_id("order-42")), Receipt)
    assert_type((yield from gather(checkout(order), children(order, 1))), tuple[Receipt, int])
    if left:
        raise children.continue_as(order, left - 1)
    return left


@workflow
def spawned(order: Order) -> Durable[None]:
    handle = yield from spawn(checkout(order), id="order-42", on_parent_close=OnParentClose.CANCEL)
    assert_type(handle, ChildHandle[Receipt])
    assert_type(handle.id, str)
    assert_type((yield from handle.result()), Receipt)
    assert_type((yield from handle.result().within(5).or_default(None)), Receipt | None)
    assert_type((yield from handle.cancel("not wanted")), bool)
    other = yield from spawn(children(order, 1))
    assert_type((yield from gather(handle.result(), other.result())), tuple[Receipt, int])
    assert_type((yield from race(handle.result(), other.result())), Won[Receipt | int])
    a_call: WorkflowCall[Receipt] = checkout_async(order)
    assert_type((yield from spawn(a_call)), ChildHandle[Receipt])
    publish({"done": 1})


@workflow
def ambient() -> Durable[None]:
    assert_type((yield from call(plain, "text")), int)
    assert_type(now(), datetime)
    assert_type(uuid("order"), uuid_module.UUID)
    assert_type(random(), random_module.Random)
    assert_type(info(), WorkflowInfo)


@workflow
def changed() -> Durable[str]:
    if assert_type(patched("courier"), bool):
        assert_type((yield from removed("post")), None)
    gone: Op[None] = removed("post").within(5)
    assert_type((yield from gather(gone, removed("post"))), tuple[None, None])
    return "done"


def definitions(order: Order) -> None:
    paid: Call[Payment] = charge(order)
    rendered: Call[bytes] = render(order)
    in_time: Op[Payment] = paid.within(5)
    as_op: Op[Receipt] = checkout(order)
    as_call: Call[Receipt] = checkout_async(order)
    charges: tuple[ActivityDef[[Order], Payment], ...] = (charge, charge.options(retry=Retry.never()))
    checkouts: tuple[WorkflowDef[[Order], Receipt], ...] = (checkout, checkout_async)
    assert_type(approval, Event[Decision])
    del rendered, in_time, as_op, as_call, charges, checkouts


async def service(order: Order) -> None:
    async with WorkflowEngine("orders.db", workflows=[checkout, checkout_async]) as engine:
        assert_type(engine, WorkflowEngine)
        handle = await engine.start(checkout(order), id="order-42", delay=5, tags=["eu"])
        assert_type(handle, WorkflowHandle[Receipt])
        assert_type(await handle.result(timeout=10), Receipt)
        assert_type(await handle.progress(), Any)
        assert_type(await handle.progress(Decision), Decision | None)
        async for update in handle.watch(Decision):
            assert_type(update, WorkflowUpdate[Decision])
            assert_type(update.progress, Decision | None)
            assert_type(update.at, datetime)
        async for anything in handle.watch():
            assert_type(anything, WorkflowUpdate[Any])
        assert_type(await engine.start(checkout_async(order)), WorkflowHandle[Receipt])
        assert_type(await engine.send_event(approval, Decision(), to="order-42"), Delivered | Queued)
        assert_type(await engine.send_event(command, "stop"), Delivered | Queued)
        assert_type(await engine.query_status("order-42"), WorkflowStatus | None)
        assert_type(await engine.cancel("order-42", "not wanted"), bool)
        assert_type(await engine.recover(), RecoveryReport)
        assert_type(await engine.runs.list(status=WorkflowStatus.PARKED), list[WorkflowSummary])
        assert_type([run async for run in engine.runs.scan(parent="order-42")], list[WorkflowSummary])
        assert_type(await engine.runs.history("order-42"), list[HistoryEntry])
        assert_type(await engine.runs.describe("order-42"), Description)
        assert_type(await engine.runs.retry("order-42"), WorkflowHandle[Any])
        assert_type(await engine.runs.fork("order-42", "3", new_id="order-42b"), WorkflowHandle[Any])
        assert_type(await engine.runs.repair("order-42", "3", Payment(), "wrong"), None)
        assert_type((await engine.runs.describe("order-42")).owed_undos, tuple[OwedUndo, ...])
        assert_type(await engine.dead_letters.replay(1, to="order-42"), Delivered | Queued)
        assert_type(await engine.pauses.list(workflow_id="order-42"), list[OpenPause])
        nightly = await engine.schedules.create("nightly", checkout(order), cron="@daily", overlap=Overlap.QUEUE)
        assert_type(nightly, ScheduleSummary)
        assert_type(nightly.next_runs, tuple[datetime, ...])
        assert_type(await engine.schedules.trigger("nightly"), WorkflowHandle[Any])
        assert_type(await engine.schedules.list(limit=5), list[ScheduleSummary])


def service_without_a_loop(order: Order) -> None:
    with SyncWorkflowEngine("orders.db") as engine:
        handle = engine.start(checkout(order), id="order-42")
        assert_type(handle, SyncWorkflowHandle[Receipt])
        assert_type(handle.result(), Receipt)
        assert_type(handle.result(timedelta(days=1), wait_if_parked=True), Receipt)
        assert_type(handle.status(), WorkflowStatus | None)
        assert_type(handle.cancel("enough"), bool)
        assert_type(handle.progress(), Any)
        assert_type(handle.progress(int), int | None)
        assert_type([update.progress for update in handle.watch(int)], list[int | None])
        assert_type(engine.handle("order-42"), SyncWorkflowHandle[Any])
        assert_type(engine.handle("order-42", checkout), SyncWorkflowHandle[Receipt])
        assert_type(engine.send_event(approval, Decision(), to="order-42"), Delivered | Queued)
        assert_type(engine.query_status("order-42"), WorkflowStatus | None)
        assert_type(engine.terminate("order-42", reason="enough"), bool)
        assert_type(engine.recover(), RecoveryReport)
        assert_type(engine.recovery, RecoveryReport | None)
        assert_type(engine.shutdown(drain=timedelta(seconds=5)), None)
        assert_type(engine.runs.list(status=WorkflowStatus.FAILED), list[WorkflowSummary])
        assert_type(list(engine.runs.scan(id_prefix="order-")), list[WorkflowSummary])
        assert_type(engine.runs.history("order-42"), list[HistoryEntry])
        assert_type(engine.runs.describe("order-42"), Description)
        assert_type(engine.runs.count(name="checkout"), int)
        assert_type(engine.runs.retry("order-42"), SyncWorkflowHandle[Any])
        assert_type(engine.runs.fork("order-42", "3"), SyncWorkflowHandle[Any])
        assert_type(engine.pauses.list(name="checkout"), list[OpenPause])
        assert_type(engine.schedules.create("often", checkout(order), every=5), ScheduleSummary)
        assert_type(engine.schedules.create("nightly", checkout(order), cron="@daily"), ScheduleSummary)
        assert_type(engine.schedules.trigger("often"), SyncWorkflowHandle[Any])
