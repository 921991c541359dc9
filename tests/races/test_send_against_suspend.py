"""An event is sent while a workflow is about to wait for it."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.engine.config import EngineConfig
from tests.engine.direct import DirectEngine, call_of, event_of
from tests.engine.flows import EVERY, go, news, reader, steady
from tests.races.kit import TO, TOGETHER

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


def _engine(room: int) -> DirectEngine:
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(steady())
    engine.start(steady(), "elsewhere")
    return engine


@ROOM
@TO
@TOGETHER
def test_event_before_the_wait_is_taken_when_the_wait_begins(together: bool, to: str | None, room: int) -> None:
    """An event sent just before the wait begins is queued, and the wait takes it in the decision in which it begins."""
    engine = _engine(room)
    begins = engine.answer(engine.activities[0], 1)
    replies = engine.two(event_of(go, 5, to=to), begins, together=together)
    assert replies == [Queued(), None]
    assert [entry.name for entry in engine.history()] == ["engine.work", "go"]
    assert engine.waits() == []
    assert engine.pending("go") == 0


@ROOM
@TO
@TOGETHER
def test_event_after_the_wait_is_delivered(together: bool, to: str | None, room: int) -> None:
    """An event sent just after the wait began is delivered immediately."""
    engine = _engine(room)
    begins = engine.answer(engine.activities[0], 1)
    replies = engine.two(begins, event_of(go, 5, to=to), together=together)
    assert replies == [None, Delivered(("w",))]
    engine.advance(1000)
    assert engine.result() == 5


@TOGETHER
@pytest.mark.parametrize("wait_first", [True, False])
def test_two_waits_and_one_event(together: bool, wait_first: bool) -> None:
    """Of two workflows that begin to wait around one untargeted event exactly one gets it: the first to wait."""
    engine = _engine(1000)
    send = event_of(go, 5)
    first, second = (engine.answer(effect, 1) for effect in engine.activities)
    if wait_first:
        engine.two(first, second, together=together)
        engine.do(send)
    else:
        engine.do(send)
        engine.two(first, second, together=together)
    assert [len(engine.history(id)) for id in ("w", "elsewhere")] == [2, 1]


@TOGETHER
@pytest.mark.parametrize("read_first", [True, False])
def test_broadcast_around_the_start_of_a_waiter(together: bool, read_first: bool) -> None:
    """A workflow that starts to wait just before or just after a broadcast gets it once."""
    engine = DirectEngine(*EVERY)
    start, send = call_of(reader(2), "w"), event_of(news, 1)
    engine.two(*((start, send) if read_first else (send, start)), together=together)
    assert [entry.outcome for entry in engine.history()] == ["1"]
    assert engine.status() is WorkflowStatus.SUSPENDED
