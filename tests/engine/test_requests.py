"""A change that another process repeats under one request id takes effect once, and gets the first answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from durable import Queued, ScheduleNotFound
from durable.backends.base import Answers, PendingEvents
from durable.engine.coordinator.inbox import Envelope
from durable.engine.decide.requests import KEPT_FOR
from durable.engine.operations import Operation, PauseSchedule, SendEvent, SweepEvents
from durable.engine.operations.requests import Repeated, Request
from durable.engine.remote import wire
from durable.errors import StorageUnavailable
from durable.model.clock import SECOND
from durable.testing.faults import Fault
from tests.engine.stepped import SteppedEngine

EVENT = SendEvent(name="requests.paid", payload="1")


def envelope(operation: Operation[Any], request_id: str = "r1") -> Envelope:
    """An operation of another process."""
    return Envelope(operation, lambda: None, Request(request_id, partial(wire.write_answer, type(operation))))


def ask(stepped: SteppedEngine, *envelopes: Envelope) -> list[Any]:
    """Process these in one batch. Returns their replies, refusals, or the text of their first answers."""
    stepped.coordinator.process([*envelopes])
    return [each.error or each.reply for each in envelopes]


def pending(stepped: SteppedEngine) -> int:
    """How many events are stored."""
    return len(stepped.backend.find(PendingEvents(limit=9)))


@pytest.mark.parametrize("together", [True, False])
def test_repeated_change_takes_effect_once(together: bool) -> None:
    """Also if the repeat is decided in the same batch. Its answer is the first one."""
    stepped = SteppedEngine()
    if together:
        first, second = ask(stepped, envelope(EVENT), envelope(EVENT))
    else:
        (first,), (second,) = ask(stepped, envelope(EVENT)), ask(stepped, envelope(EVENT))
    assert first == Queued()
    assert wire.read_answer(SendEvent, wire.read_text(second.text)) == Queued()
    assert pending(stepped) == 1


def test_refusal_is_repeated_too() -> None:
    """A refused change stays refused for its request, even if it would be accepted now."""
    stepped = SteppedEngine()
    ((refusal,), (again,)) = ask(stepped, envelope(PauseSchedule("s"))), ask(stepped, envelope(PauseSchedule("s")))
    assert isinstance(refusal, ScheduleNotFound)
    with pytest.raises(ScheduleNotFound):
        wire.read_answer(PauseSchedule, wire.read_text(again.text))


def test_other_request_is_decided() -> None:
    """The id decides, not the operation; and callers of this process have none."""
    stepped = SteppedEngine()
    ask(stepped, envelope(EVENT), envelope(EVENT, "r2"), stepped.letter(EVENT))
    assert pending(stepped) == 3


def test_answer_survives_the_engine() -> None:
    """The answer is stored in the commit of the change, so the next engine repeats it."""
    stepped = SteppedEngine()
    ask(stepped, envelope(EVENT))
    restarted = SteppedEngine(store=stepped.store)
    (again,) = ask(restarted, envelope(EVENT))
    assert isinstance(again, Repeated)
    assert pending(restarted) == 1


def test_answer_is_not_kept_if_the_change_is_not() -> None:
    """A commit that fails for good stores neither, so a repeat is decided."""
    stepped = SteppedEngine()
    stepped.backend.plan = {stepped.backend.commits + n: Fault.FAIL_BEFORE for n in range(1, 99)}
    with pytest.raises(StorageUnavailable):
        ask(stepped, envelope(EVENT))
    restarted = SteppedEngine(store=stepped.store)
    assert ask(restarted, envelope(EVENT)) == [Queued()]
    assert pending(restarted) == 1


def test_answers_are_kept_for_ten_minutes() -> None:
    """The sweep removes older ones, and only those."""
    stepped = SteppedEngine()
    ask(stepped, envelope(EVENT))
    stepped.clock.advance(KEPT_FOR / SECOND)
    ask(stepped, envelope(EVENT, "r2"))
    stepped.coordinator.process([SweepEvents()])
    assert len(stepped.backend.find(Answers(before=stepped.clock.now() + 1, limit=9))) == 2
    stepped.clock.advance(1)
    stepped.coordinator.process([SweepEvents()])
    assert [answer.request_id for answer in stepped.backend.find(Answers(before=1 << 60, limit=9))] == ["r2"]
