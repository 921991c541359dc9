"""A small service with clients, and what it does after the power comes back.

Its workflows do one of everything, and their right results are known. This file knows the public engine and a recording
of the acknowledgements. It must not know disks.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import anyio

from durable import Durable, EngineConfig, Event, WorkflowEngine, WorkflowStatus, activity, gather, sleep, workflow
from durable.backends.base import Backend
from tests.power.store import Recording

CLIENTS = 3
# However often it is switched off, its workflows must not be blamed.
CONFIG = EngineConfig(max_crashes=1_000_000)
nudge = Event[int]("power.nudge")


@activity(name="power.add")
async def add(number: int, more: int) -> int:
    """Runs on the loop."""
    return number + more


@workflow(name="power.doubled")
def doubled(number: int) -> Durable[int]:
    """The child."""
    return 2 * (yield from add(number, 1))


@workflow(name="power.order")
def order(number: int, padding: str, round: int = 0) -> Durable[int]:
    """Does one of everything, with an input of any size. The second round finishes it."""
    total = yield from add(number, 1)
    if round == 0:
        raise order.continue_as(total, padding, 1)
    total += yield from nudge.wait()
    yield from sleep(0.001)
    first, second = yield from gather(add(total, 1), add(total, 2))
    return (yield from doubled(first + second))


def expected(number: int) -> int:
    """What the order with this number returns."""
    total = number + 2 + 10 * number
    return 2 * (2 * total + 3 + 1)


def padding(number: int) -> str:
    """A text that follows from the number. Some take several pages of the file."""
    return "x" * random.Random(number).choice([0, 10, 500, 6000])


async def _carry_out(engine: WorkflowEngine, number: int, recording: Recording) -> None:
    id = f"w{number}"
    recording.acknowledge("begin", id)
    handle = await engine.start(order(number, padding(number)), id=id)
    recording.acknowledge("start", id)
    await engine.send_event(nudge, 10 * number, to=id, event_id=f"nudge {id}")
    recording.acknowledge("event", id)
    result = await handle.result()
    if result != expected(number):
        raise AssertionError(f"{id} returned {result} instead of {expected(number)}")
    recording.acknowledge("result", id)


async def serve(backend: Backend, numbers: Iterable[int], recording: Recording) -> None:
    """One life of the service: clients carry out these orders, and the service stops cleanly."""
    left = iter(numbers)

    async def client(engine: WorkflowEngine) -> None:
        for number in left:
            await _carry_out(engine, number, recording)

    async with (
        WorkflowEngine(backend, workflows=[order, doubled], config=CONFIG) as engine,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(CLIENTS):
            tasks.start_soon(client, engine)


async def resume(backend: Backend, kept: dict[str, set[str]], begun: Iterable[str]) -> None:
    """The service after a power cut: acknowledgements hold, and everything that was begun ends as it should."""
    async with WorkflowEngine(backend, workflows=[order, doubled], config=CONFIG) as engine:
        for id in kept.get("start", ()):
            if await engine.query_status(id) is None:
                raise AssertionError(f"the acknowledged start of {id} is lost")
        for id in kept.get("result", ()):
            if await engine.query_status(id) is not WorkflowStatus.SUCCEEDED:
                raise AssertionError(f"the acknowledged result of {id} is lost")
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for id in begun:
                    tasks.start_soon(_finish, engine, int(id[1:]), id in kept.get("event", ()))


async def _finish(engine: WorkflowEngine, number: int, was_told: bool) -> None:
    id = f"w{number}"
    handle = await engine.start(order(number, padding(number)), id=id)
    # An acknowledged event is not sent again: it must be there.
    if not was_told:
        await engine.send_event(nudge, 10 * number, to=id, event_id=f"nudge {id}")
    result = await handle.result()
    if result != expected(number):
        raise AssertionError(f"{id} returned {result} instead of {expected(number)}")
