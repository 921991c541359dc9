"""Operations that are created and dropped. Only checked, never run.

mypy notices them with the error code `unused-awaitable`, pyright does not; at run time a guard fails the workflow.
"""

from __future__ import annotations

from durable import Durable, activity, fan_out, first_success, pause, settle, sleep, spawn, workflow


@activity
async def charge(order: str) -> int:
    return 7


@workflow
def dropped(order: str) -> Durable[None]:
    charge(order)  # type: ignore[unused-awaitable]
    yield from sleep(1)
    sleep(1)  # type: ignore[unused-awaitable]
    pause(returns=bool)  # type: ignore[unused-awaitable]


@workflow
async def dropped_async(order: str) -> None:
    charge(order).within(3)  # type: ignore[unused-awaitable]
    await sleep(1)
    spawn(dropped(order))  # type: ignore[unused-awaitable]
    handle = await spawn(dropped(order))
    handle.result()  # type: ignore[unused-awaitable]
    handle.cancel()  # type: ignore[unused-awaitable]
    dropped(order)  # type: ignore[unused-awaitable]


@workflow
def dropped_at_once(order: str) -> Durable[None]:
    settle(charge(order))  # type: ignore[unused-awaitable]
    yield from sleep(1)
    first_success(visa=charge(order))  # type: ignore[unused-awaitable]
    fan_out(charge, [order])  # type: ignore[unused-awaitable]
