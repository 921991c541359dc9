"""What type checkers infer for workflows by name. Only checked, never run."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import Any, assert_type

from durable import (
    ScheduleSummary,
    SyncWorkflowEngine,
    SyncWorkflowHandle,
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
