"""Workflows for the tests of the command line, also run by other processes through `durable worker`."""

from __future__ import annotations

import os
from datetime import timedelta

from durable import (
    Durable,
    Event,
    Retry,
    WorkflowEngine,
    activity,
    activity_info,
    gather,
    pause,
    sleep,
    spawn,
    workflow,
)

approval = Event[dict[str, str]]("approval")


@activity(retry=Retry(max_attempts=3, first_delay=0.01))
def charge(order: str) -> int:
    """Fails once."""
    if activity_info().attempt == 1:
        raise ConnectionError(f"card service refused {order}: 503")
    return 4200


@activity(retry=Retry.never())
def ship(order: str) -> str:
    """Always fails."""
    raise ValueError(f"no warehouse has {order}")


@workflow(name="cli-nap")
def nap(seconds: float = 3600) -> Durable[str]:
    """Sleeps."""
    yield from sleep(seconds)
    return "rested"


@workflow(name="cli-checkout")
def checkout(order: str) -> Durable[str]:
    """Charges, starts a child, and waits for an approval."""
    yield from gather(charge(order), charge(order))
    yield from spawn(nap())
    decision = yield from approval.wait().within(timedelta(days=3))
    return decision["by"]


@workflow(name="cli-delivery")
def delivery(order: str) -> Durable[str]:
    """Fails."""
    return (yield from ship(order))


@workflow(name="cli-question")
def question(order: str) -> Durable[bool]:
    """Asks a person."""
    return (yield from pause(returns=bool, prompt={"question": f"Release {order}?"}))


ALL = (nap, checkout, delivery, question)
# What the environment says is the store, for a worker in another process.
STORE = "DURABLE_TEST_STORE"


def make_engine() -> WorkflowEngine:
    """An engine for `durable worker`."""
    return WorkflowEngine(os.environ[STORE], workflows=ALL)
