"""The workflows that Restate calls, served by Hypercorn over HTTP/2 in a separate process."""

from __future__ import annotations

from datetime import timedelta

import restate

steps = restate.Workflow("steps")
waiter = restate.Workflow("waiter")
sleeper = restate.Workflow("sleeper")


async def step(number: int) -> int:
    """As little as a step can do."""
    return number + 1


@steps.main("run")
async def run_steps(ctx: restate.WorkflowContext, count: int) -> int:
    """Some steps in a row."""
    value = 0
    for place in range(count):
        value = await ctx.run_typed(f"step {place}", step, restate.RunOptions(), number=value)
    return value


@waiter.main("run")
async def run_waiter(ctx: restate.WorkflowContext, _: int) -> int:
    """Waits for a promise."""
    return int(await ctx.promise("go").value())


@waiter.handler("go")
async def go(ctx: restate.WorkflowSharedContext, number: int) -> None:
    """Keeps the promise."""
    await ctx.promise("go").resolve(number)


@sleeper.main("run")
async def run_sleeper(ctx: restate.WorkflowContext, seconds: float) -> None:
    """Sleeps."""
    await ctx.sleep(timedelta(seconds=seconds))


app = restate.app([steps, waiter, sleeper])
