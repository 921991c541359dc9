"""A small service behind HTTP, for `drive`: uvicorn runs `application` in several processes on one store.

`POST /orders/ID` starts an order, durably, before it answers; `GET /orders/ID` waits for its result.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from durable import Durable, EngineConfig, WorkflowEngine, activity, activity_info, workflow

STORE, LEDGER = "DRIVE_STORE", "DRIVE_LEDGER"
Message = dict[str, Any]
_engine: WorkflowEngine | None = None


@activity(name="drive.write_down")
def write_down() -> None:
    """Adds a line to the ledger: a key that is the same for every attempt."""
    descriptor = os.open(os.environ[LEDGER], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{activity_info().idempotency_key}\n".encode())
    finally:
        os.close(descriptor)


@workflow(name="drive.order")
def order(sku: str) -> Durable[str]:
    """Two steps."""
    yield from write_down()
    yield from write_down()
    return sku


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """An ASGI application, without a framework."""
    if scope["type"] == "lifespan":
        await receive()
        async with WorkflowEngine(os.environ[STORE], config=EngineConfig(drain=5), shared=True) as engine:
            globals()["_engine"] = engine
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    assert _engine is not None
    id = scope["path"].rpartition("/")[2]
    if scope["method"] == "POST":
        await _engine.start(order(id), id=id)
        status, body = 202, b""
    else:
        status, body = 200, (await _engine.handle(id, order).result()).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
