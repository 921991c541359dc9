"""One workflow that does what its arguments say, so that any line of steps can be tried."""

from __future__ import annotations

from durable import Cancelled, DeliveryMode, Durable, Event, Retry, activity, info, sleep, workflow

# The events by name. What they are is public, so the model knows them too.
GO = Event[int]("go")
NEWS = Event[int]("news", consume_on_read=False, expire_after=100)
FRESH = Event[int]("fresh", delivery_mode=DeliveryMode.AFTER_WAIT)
SINCE = Event[int]("since", delivery_mode=DeliveryMode.AFTER_CREATE)
EVENTS = {event.name: event for event in (GO, NEWS, FRESH, SINCE)}


class Broken(Exception):
    """The error of a failing activity."""


@activity(name="machine.work", retry=Retry(max_attempts=2, first_delay=10, factor=1, jitter=0))
def work() -> int:
    """Never runs: the machine answers for it."""
    raise NotImplementedError


@activity(name="machine.clean", retry=Retry.never())
def clean() -> int:
    """Never runs either."""
    raise NotImplementedError


@activity(name="machine.brisk", retry=Retry.never())
def brisk() -> int:
    """Never runs either, and has a timeout."""
    raise NotImplementedError


@workflow(name="machine.program")
def program(steps: list[str], results: list[int]) -> Durable[list[int]]:
    """Do the steps in turn. Returns the result of each. `again` continues as a new round with the rest."""
    for index, step in enumerate(steps):
        if step == "again":
            raise program.continue_as(steps[index + 1 :], results)
        results = [*results, (yield from _step(step, index))]
    return results


def _step(step: str, index: int) -> Durable[int]:
    if step == "work":
        return (yield from work())
    if step == "sleep":
        yield from sleep(60)
        return 0
    if step == "soon":
        return (yield from GO.wait().within(30).or_default(-1))
    if step == "brisk":
        return (yield from brisk().within(20).or_default(-1))
    if step == "tidy":
        try:
            return (yield from GO.wait())
        except Cancelled:
            yield from clean()
            raise
    if step.startswith("child:"):
        child = program(step.removeprefix("child:").split(","), []).with_id(f"{info().id}.{info().round}.{index}")
        return sum((yield from child))
    name, _, key = step.partition("@")
    return (yield from EVENTS[name].wait(key or None))
