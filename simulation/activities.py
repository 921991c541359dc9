"""The activities that programs call. They fail as planned, by the number of the attempt.

No event loop runs them: the simulated world calls the plain functions at their time.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Any

from durable.engine.host.activities import activity_info
from durable.errors import NonRetryable, RetryAfter
from durable.model.retry import Retry
from durable.runner.definitions import activity

RETRY = Retry(max_attempts=4, first_delay=0.2, factor=3.0)
# What follows the planned failures of an activity: a value, more failures without end, or an error that ends retries.
WELL, BADLY, STUBBORNLY = "well", "badly", "stubbornly"


class Broken(Exception):
    """A failure after which a retry may succeed."""


class Stubborn(NonRetryable):
    """A failure that is not retried."""


# The workflows that an operator has retried. The cause of their failures is repaired, for them and their children.
MENDED: ContextVar[AbstractSet[str]] = ContextVar("MENDED", default=frozenset())


def root_of(id: str) -> str:
    """The id of the topmost parent of a workflow."""
    return id.partition("/")[0].partition(".")[0]


@activity(name="simulation.work", retry=RETRY)
def work(n: int, fails: int, ends: str) -> list[Any]:
    """Fail as often as planned, then end as planned. The value contains the number of the attempt."""
    attempt = activity_info().attempt
    if ends != WELL and root_of(activity_info().workflow_id) in MENDED.get():
        return ["mended", n]
    if ends == STUBBORNLY and attempt > fails:
        raise Stubborn(str(n))
    if ends == BADLY or attempt <= fails:
        raise RetryAfter(0.5) if ends == WELL and attempt == 2 else Broken(n)
    return ["done", n, attempt]


@activity(name="simulation.echo")
def echo(drawn: list[Any]) -> list[Any]:
    """Return the argument. The history keeps it, so a replay that draws other values is noticed."""
    return drawn


@activity(name="simulation.tidy", retry=Retry(max_attempts=None, first_delay=0.1))
def tidy(n: int) -> list[Any]:
    """A cleanup after a cancellation; its first attempt fails."""
    if activity_info().attempt == 1:
        raise Broken(n)
    return ["tidied", n]


# A step that can be undone: `work` under another name, by which the ledger recognizes it.
hold = work.options(name="simulation.hold")


@activity(name="simulation.release", retry=RETRY)
def release(n: int, fails: int) -> list[Any]:
    """The undo of a step. It fails as often as planned, which may be more often than it is tried."""
    if activity_info().attempt <= fails:
        raise Broken(n)
    return ["released", n]


# The activities that may still run when a workflow is cancelled.
CLEANUP = (tidy, release)
