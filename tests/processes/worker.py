"""A service that is killed again and again: `python worker.py FOLDER SYNCHRONOUS`, then one JSON command per line.

The process itself only forks: it has imported everything and started no thread, so a fresh service costs a fork and not
an interpreter. Each command is answered with one JSON line when its service is dead.

The service has clients that begin workflows, send them their event or cancel them, and wait for their results.
Each client writes every reply to the file `acks`, each activity writes to the file `trace` when it begins; one write
per line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, Literal, cast

import anyio

from durable import (
    Cancelled,
    Durable,
    EngineConfig,
    Event,
    WorkflowCancelled,
    WorkflowEngine,
    activity,
    activity_info,
    gather,
    sleep,
    workflow,
)
from durable.backends.sqlite import SqliteBackend

CLIENTS = 4
nudge = Event[int]("nudge")
files: dict[str, int] = {}


def say(file: str, *words: object) -> None:
    """One line, in one write."""
    os.write(files[file], (" ".join(map(str, words)) + "\n").encode())


def say_begin() -> None:
    """The attempt that begins: the workflow, its position and the number of the attempt."""
    info = activity_info()
    say("trace", info.workflow_id, info.idempotency_key.removeprefix(f"{info.workflow_id}/"), info.attempt)


@activity
async def step(number: int) -> int:
    """On the loop."""
    say_begin()
    return number + 1


@activity
def step_in_thread(number: int) -> int:
    """In a thread."""
    say_begin()
    return number + 1


@workflow
def doubled(number: int) -> Durable[int]:
    """The child."""
    return 2 * (yield from step(number))


@workflow
def second_round(number: int) -> Durable[int]:
    """The rest of the work, with its own history."""
    return (yield from doubled((yield from step(number))))


@workflow
def killed(number: int) -> Durable[int]:
    """One of everything."""
    total = yield from step(number)
    total += yield from nudge.wait()
    total = yield from step_in_thread(total)
    yield from sleep(0.01)
    first, second = yield from gather(step(total), step_in_thread(total))
    raise second_round.continue_as(first + second)


@workflow
def called_off(number: int) -> Durable[int]:
    """Waits for an event that is never sent, and cleans up when it is cancelled."""
    try:
        yield from step_in_thread(number)
        return (yield from nudge.wait())
    except Cancelled:
        yield from step(number)
        raise


def is_called_off(number: int) -> bool:
    """Which numbers are cancelled."""
    return number % 4 == 3


def expected(number: int) -> int:
    """The result that a client gets if the event was ten times the number; -1 stands for a cancellation."""
    return -1 if is_called_off(number) else 2 * (2 * (number + 1 + 10 * number + 1 + 1) + 1 + 1)


async def use(engine: WorkflowEngine, number: int) -> None:
    """The calls of a client for one number; safe to repeat after any death."""
    id = f"w{number}"
    say("acks", "begin", id)
    handle = await engine.start(called_off(number) if is_called_off(number) else killed(number), id=id)
    say("acks", "start", id)
    if is_called_off(number):
        await engine.cancel(id)
        say("acks", "cancel", id)
    else:
        await engine.send_event(nudge, 10 * number, to=id, event_id=f"nudge {id}")
        say("acks", "event", id)
    try:
        say("acks", "result", id, await handle.result())
    except WorkflowCancelled:
        say("acks", "result", id, -1)


async def serve(folder: Path, command: dict[str, Any], ready: int) -> None:
    """Finish pending work and, if this service is to be killed, begin new workflows until then."""
    # Three kills within milliseconds of three starts would look like the workflow's fault, which is another test.
    config = EngineConfig(max_crashes=1_000_000)
    numbers = iter([*command["pending"], *range(command["first"], command["last"])])
    store = SqliteBackend(folder / "store.db", synchronous=cast("Literal['FULL', 'NORMAL']", sys.argv[2]))
    async with WorkflowEngine(store, config=config) as engine:
        os.write(ready, b"ready\n")

        async def client() -> None:
            for number in numbers:
                await use(engine, number)

        async with anyio.create_task_group() as tasks:
            for _ in range(CLIENTS):
                tasks.start_soon(client)


def run(folder: Path, command: dict[str, Any]) -> dict[str, Any]:
    """Fork a service, kill it at its time, and report how it ended."""
    ready_end, ready = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            anyio.run(serve, folder, command, ready)
            status = 0
        finally:
            os._exit(status)
    os.close(ready)
    was_ready = False
    if command["kill_after"] is not None:
        if not command["early"]:
            was_ready = os.read(ready_end, 6) == b"ready\n"
        # It ends early only if the service does.
        select.select([ready_end] if was_ready else [], [], [], command["kill_after"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(ready_end)
    return {"ready": was_ready, "status": os.waitstatus_to_exitcode(status)}


def main() -> None:
    """Serve commands until the input ends."""
    folder = Path(sys.argv[1])
    for name in ("acks", "trace"):
        files[name] = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(folder, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
