"""The coordinator was busy: calls and a deadline that arrived meanwhile are decided in order of arrival."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Delivered, Durable, EngineConfig, Queued, workflow
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import Operation, RecordActivity
from tests.engine.direct import call_of, event_of
from tests.engine.flows import go, hesitant, sleeper, work
from tests.engine.stepped import SteppedEngine


@workflow(name="deadline.slow")
def slow() -> Durable[int]:
    """An activity within a limit."""
    return (yield from work(1).within(60).or_default(-1))


def _submit(stepped: SteppedEngine, operation: Operation[Any]) -> Envelope:
    envelope = stepped.letter(operation)
    stepped.coordinator.submit(envelope)
    return envelope


def _rest(stepped: SteppedEngine) -> None:
    while stepped.coordinator.has_work():
        stepped.coordinator.work_off()


@pytest.mark.parametrize(("seconds", "reply"), [(59.83, Delivered(("w",))), (60, Queued()), (60.1, Queued())])
def test_event_and_deadline_in_one_batch(seconds: float, reply: object) -> None:
    """An event that arrived before the deadline is taken, one at or after it is not, however late both are decided."""
    stepped = SteppedEngine()
    stepped.ask(call_of(hesitant(), "w"))
    stepped.clock.advance(seconds)
    sent = _submit(stepped, event_of(go, 5, to="w"))
    stepped.clock.advance(1)
    _rest(stepped)
    assert sent.reply == reply


@pytest.mark.parametrize(("seconds", "result"), [(59, "7"), (61, "-1")])
def test_answer_and_deadline_in_one_batch(seconds: float, result: str) -> None:
    """The answer of an activity also counts from its arrival."""
    stepped = SteppedEngine()
    stepped.ask(call_of(slow(), "w"))
    (effect,) = stepped.released[-1].activities
    stepped.clock.advance(seconds)
    stepped.coordinator.submit(RecordActivity(effect.key, 0, effect.position, 1, "7", 7))
    stepped.clock.advance(3)
    _rest(stepped)
    record = stepped.backend.workflow("w")
    assert record is not None
    assert record.result == result


def test_flood_of_calls_does_not_hold_up_timers() -> None:
    """However many calls wait, each batch fires timers that are due, and a bounded number of them."""
    stepped = SteppedEngine(config=EngineConfig(max_batch=10))
    stepped.settle()
    stepped.ask(*(call_of(sleeper(), f"s{number}") for number in range(30)))
    for number in range(200):
        _submit(stepped, event_of(go, number))
    stepped.clock.advance(61)
    ended = []
    for _ in range(3):
        stepped.coordinator.work_off()
        ended.append(sum(record.status.is_terminal for record in stepped.store.workflows.values()))
    assert ended == [10, 20, 30]


def test_calls_keep_their_order_around_a_deadline() -> None:
    """Calls are never decided before calls that arrived earlier."""
    stepped = SteppedEngine()
    stepped.ask(call_of(hesitant(), "w"))
    stepped.clock.advance(59)
    first = [_submit(stepped, event_of(go, number, to="w")) for number in range(2)]
    stepped.clock.advance(2)
    late = _submit(stepped, event_of(go, 2, to="w"))
    _rest(stepped)
    assert [sent.reply for sent in (*first, late)] == [Delivered(("w",)), Queued(), Queued()]
    assert [event.payload for event in stepped.store.events.values()] == ["1", "2"]
