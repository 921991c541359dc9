"""Events by name that no code declares take their settings from a run that waits for them."""

from __future__ import annotations

import pytest

from durable import CodecError, Delivered, Durable, Event, UnknownEvent, WorkflowStatus, workflow
from durable.engine import operations as ops
from tests.engine.direct import DirectEngine, call_of, event_of

NAME = "by-name.eu"


@workflow(name="by-name.waiter")
def waiter(region: str) -> Durable[int]:
    """Waits for an event whose name is computed."""
    return (yield from Event[int](f"by-name.{region}").wait())


def by_name() -> ops.SendEvent:
    """The operation that sends the event by its name."""
    return ops.SendEvent(name=NAME, event_key="", payload="1", by_name=True)


def test_live_body_knows_the_settings() -> None:
    """The run is in memory: nothing is read for it."""
    direct = DirectEngine(waiter)
    direct.do(call_of(waiter("eu"), "w"))
    assert direct.do(by_name()) == Delivered(("w",))


def test_run_with_a_damaged_history_knows_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed over; the sender learns that nobody knows the event."""
    direct = DirectEngine(waiter)
    direct.do(call_of(waiter("eu"), "w"))
    direct.restart(waiter)

    def damaged(key: int) -> None:
        raise CodecError("history", f"entry of {key} is damaged")

    with monkeypatch.context() as patch:
        patch.setattr(direct.state.chronicle, "of", damaged)
        with pytest.raises(UnknownEvent):
            direct.do(by_name())


def test_parked_run_knows_no_settings() -> None:
    """Its code is gone, and so is the event."""
    direct = DirectEngine(waiter)
    direct.do(call_of(waiter("eu"), "w"))
    direct.restart()
    direct.do(event_of(Event[int](NAME), 1, to="w"))
    assert direct.record("w").status is WorkflowStatus.PARKED
    with pytest.raises(UnknownEvent):
        direct.do(by_name())
