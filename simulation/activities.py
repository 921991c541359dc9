"""What programs call: activities that fail as planned, by the number of the attempt.

They are never run by an event loop: the simulated world calls the plain functions when their time has come.
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
# How an activity ends after its planned failures: with a value, never, or for good at once.
WELL, BADLY, STUBBORNLY = "well", "badly", "stubbornly"


class Broken(Exception):
    """A failure that a retry may mend."""


class Stubborn(NonRetryable):
    """A failure that no retry mends."""


# The workflows that an operator has retried: he has mended what was broken, for them and for their children.
MENDED: ContextVar[AbstractSet[str]] = ContextVar("MENDED", default=frozenset())


def root_of(id: str) -> str:
    """The id of the workflow that stands at the top of the family of this one."""
    return id.partition("/")[0].partition(".")[0]


@activity(name="simulation.work", retry=RETRY)
def work(n: int, fails: int, ends: str) -> list[Any]:
    """Fail as often as planned, then end as planned; a value says which attempt has made it."""
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
    """What it was given: recorded by the first execution, and so the witness of what that one has drawn."""
    return drawn


@activity(name="simulation.tidy", retry=Retry(max_attempts=None, first_delay=0.1))
def tidy(n: int) -> list[Any]:
    """The cleanup after a cancellation; its first attempt fails."""
    if activity_info().attempt == 1:
        raise Broken(n)
    return ["tidied", n]


# A step that is undone: the same, under a name by which the ledger knows it.
hold = work.options(name="simulation.hold")


@activity(name="simulation.release", retry=RETRY)
def release(n: int, fails: int) -> list[Any]:
    """The undo of a step: it fails as often as planned, which may be for good."""
    if activity_info().attempt <= fails:
        raise Broken(n)
    return ["released", n]


# What may still run when a workflow is cancelled.
CLEANUP = (tidy, release)
