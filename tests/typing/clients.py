"""What type checkers infer for clients and for workflows by name. Only checked, never run."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import Any, assert_type

from durable import (
    Delivered,
    Event,
    Queued,
    ScheduleSummary,
    SyncWorkflowClient,
    SyncWorkflowEngine,
    SyncWorkflowHandle,
    WorkflowClient,
    WorkflowEngine,
    WorkflowHandle,
    WorkflowRef,
)


class Receipt: ...


checkout = WorkflowRef("checkout", returns=Receipt)
untyped = WorkflowRef("checkout")
second = WorkflowRef("checkout", returns=list[Receipt], version=2)
either = WorkflowRef("checkout", returns=Receipt | None)

assert_type(checkout, WorkflowRef[Receipt])
assert_type(untyped, WorkflowRef[Any])
assert_type(second, WorkflowRef[list[Receipt]])
assert_type(either, WorkflowRef[Any])


async def service(engine: WorkflowEngine) -> None:
    handle = await engine.start(checkout(order={"sku": "x"}), id="order-42")
    assert_type(handle, WorkflowHandle[Receipt])
    assert_type(await handle.result(), Receipt)
    assert_type(await (await engine.start(untyped(order=1))).result(), Any)
    assert_type(engine.handle("order-42", checkout), WorkflowHandle[Receipt])
    assert_type(await engine.schedules.create("nightly", checkout(order=1), cron="@daily"), ScheduleSummary)
    checkout({"sku": "x"})  # type: ignore[call-arg]


def service_without_a_loop(engine: SyncWorkflowEngine) -> None:
    assert_type(engine.start(checkout(order=1)), SyncWorkflowHandle[Receipt])
    assert_type(engine.handle("order-42", checkout), SyncWorkflowHandle[Receipt])


paid = Event[int]("paid")


async def from_another_process() -> None:
    async with WorkflowClient("orders.db", timeout=5, no_engine="refuse") as client:
        assert_type(client, WorkflowClient)
        assert_type(await client.start(checkout(order=1), id="order-42"), WorkflowHandle[Receipt])
        assert_type(await client.send_event(paid, 1, to="order-42"), Delivered | Queued)
        await client.send_event(paid, "1")  # type: ignore[misc]
        assert_type(await client.runs.count(), int)
    WorkflowClient("orders.db", no_engine="wait")  # type: ignore[arg-type]


def from_another_process_without_a_loop() -> None:
    with SyncWorkflowClient("orders.db", timeout=5) as client:
        assert_type(client.start(checkout(order=1), id="order-42"), SyncWorkflowHandle[Receipt])
        assert_type(client.handle("order-42", checkout).result(), Receipt)
        assert_type(client.send_event(paid, 1), Delivered | Queued)
    SyncWorkflowClient("orders.db", timeouts=5)  # type: ignore[call-arg]


async def either_will_do(client: WorkflowClient) -> None:
    async with WorkflowEngine("orders.db") as engine:
        await either_will_do(engine)


def either_will_do_without_a_loop(client: SyncWorkflowClient) -> None:
    with SyncWorkflowEngine("orders.db") as engine:
        either_will_do_without_a_loop(engine)
