"""One process of a service: `python -m tests.shared.worker STORE`. It takes calls as lines of JSON, many at once.

`[number, "order", ledger, id]` starts an order and waits for it, `[number, "send", payload]` sends an untargeted event,
`[number, "role"]` says whether it owns the store. Each answer is a line `[number, value]`. It ends with its input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import anyio.to_thread

from durable import EngineConfig, WorkflowEngine
from tests.shared.flows import WORKFLOWS, go, order


async def serve(store: str) -> None:
    """Answer calls until the input ends."""
    config = EngineConfig(drain=5)
    async with (
        WorkflowEngine(store, workflows=WORKFLOWS, config=config, shared=True) as engine,
        anyio.create_task_group() as tasks,
    ):
        say("open")
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            number, verb, *arguments = json.loads(line)
            tasks.start_soon(answer, engine, number, verb, *arguments)


async def answer(engine: WorkflowEngine, number: int, verb: str, *arguments: Any) -> None:
    """Answer one call."""
    match verb, arguments:
        case "order", (ledger, id):
            handle = await engine.start(order(ledger, id), id=id)
            say([number, await handle.result()])
        case "send", (payload,):
            await engine.send_event(go, payload)
            say([number, payload])
        case _:
            say([number, engine.is_owner])


def say(value: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
