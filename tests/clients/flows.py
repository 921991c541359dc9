"""Workflows that clients start, and the process of an engine: `python -m tests.clients.flows STORE` runs one."""

from __future__ import annotations

import sys

import anyio
import anyio.to_thread
import attrs

from durable import Durable, EngineConfig, Event, WorkflowEngine, WorkflowRef, pause, publish, workflow

go = Event[int]("clients.go")


@attrs.frozen
class Order:
    """What is ordered."""

    sku: str
    count: int = 1


@workflow(name="clients.checkout")
def checkout(order: Order, note: str = "none") -> Durable[Order]:
    """Takes one event, and returns the order with its payload as the count."""
    publish("waiting")
    count = yield from go.wait()
    return Order(order.sku, count)


@workflow(name="clients.asking")
def asking() -> Durable[str]:
    """Asks a person."""
    return (yield from pause(returns=str, prompt="why?"))


@workflow(name="clients.doomed")
def doomed() -> Durable[None]:
    """Fails."""
    raise ValueError("doomed")
    yield


WORKFLOWS = (checkout, asking, doomed)
by_name = WorkflowRef("clients.checkout", returns=Order)


async def serve(store: str) -> None:
    """An engine that works until its input ends."""
    async with WorkflowEngine(store, workflows=WORKFLOWS, config=EngineConfig(drain=0)):
        sys.stdout.write("open\n")
        sys.stdout.flush()
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
