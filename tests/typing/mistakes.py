"""Mistakes that pass in silence at run time or late, and that type checkers refuse. Only checked, never run.

Each mistake carries the error that it must give: an ignore comment that is not needed is an error itself.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import Any, assert_type

from durable import (
    Durable,
    SyncWorkflowEngine,
    SyncWorkflowHandle,
    WorkflowEngine,
    WorkflowHandle,
    activity,
    call,
    spawn,
    workflow,
)


class Order: ...


class Receipt: ...


@activity
async def charge(order: Order) -> Receipt:
    return Receipt()


@workflow
def checkout(order: Order) -> Durable[Receipt]:
    return (yield from charge(order))


@workflow
def spawns_an_activity(order: Order) -> Durable[None]:
    yield from spawn(charge(order))  # type: ignore[arg-type]


async def service(engine: WorkflowEngine, order: Order) -> None:
    await engine.start(charge(order))  # type: ignore[arg-type]
    await engine.start(call(len, "x"))  # type: ignore[arg-type]
    await engine.schedules.create("n", charge(order), cron="@daily")  # type: ignore[call-overload]
    await engine.schedules.create("n", checkout(order), cron="@daily", every=5)  # type: ignore[call-overload]
    await engine.schedules.create("n", checkout(order))  # type: ignore[call-overload]
    await engine.schedules.create("n", checkout(order), every=5, timezone="UTC")  # type: ignore[call-overload]
    await engine.schedules.create("n", checkout(order), cron="@daily", timezone="UTC")
    await engine.schedules.create("n", checkout(order), every=5, replace=True)
    handle = engine.handle("order-42", checkout)
    assert_type(handle, WorkflowHandle[Receipt])
    assert_type(await handle.result(wait_if_parked=True), Receipt)
    assert_type(engine.handle("order-42"), WorkflowHandle[Any])
    engine.handle("order-42", charge)  # type: ignore[call-overload]
    engine.handle("order-42", checkout(order))  # type: ignore[call-overload]


def service_without_a_loop(engine: SyncWorkflowEngine, order: Order) -> None:
    engine.start(charge(order))  # type: ignore[arg-type]
    engine.schedules.create("n", checkout(order), cron="@daily", every=5)  # type: ignore[call-overload]
    engine.schedules.create("n", charge(order), every=5)  # type: ignore[call-overload]
    engine.schedules.create("n", checkout(order), every=5)
    assert_type(engine.handle("order-42", checkout), SyncWorkflowHandle[Receipt])
    assert_type(engine.handle("order-42", checkout).result(), Receipt)
    engine.handle("order-42", charge)  # type: ignore[call-overload]
