"""Which events the code of workflows declares."""

from __future__ import annotations

from durable import Durable, Event, workflow
from durable.runner.declared import declared_events


def test_variable_that_is_not_set_yet_declares_nothing() -> None:
    """A workflow may use a variable of the function around it that gets its value later."""

    @workflow(name="declared.early")
    def early() -> Durable[int]:
        return (yield from later.wait())

    before = set(declared_events([early]))
    later = Event[int]("declared.later")
    assert set(declared_events([early])) - before == {"declared.later"}
