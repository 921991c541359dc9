"""A small service behind HTTP, for `drive`: uvicorn runs `application` in several processes on one store.

`POST /orders/ID` starts an order, durably, before it answers; `GET /orders/ID` waits for its result.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from durable import EngineConfig, WorkflowEngine
from tests.shared.flows import WORKFLOWS, order

STORE, LEDGER = "DRIVE_STORE", "DRIVE_LEDGER"
Message = dict[str, Any]
_engine: WorkflowEngine | None = None


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """An ASGI application, without a framework."""
    if scope["type"] == "lifespan":
        await receive()
        async with WorkflowEngine(
            os.environ[STORE], workflows=WORKFLOWS, config=EngineConfig(drain=5), shared=True
        ) as engine:
            globals()["_engine"] = engine
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    assert _engine is not None
    id = scope["path"].rpartition("/")[2]
    if scope["method"] == "POST":
        await _engine.start(order(os.environ[LEDGER], id), id=id)
        status, body = 202, b""
    else:
        status, body = 200, (await _engine.handle(id, order).result()).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
