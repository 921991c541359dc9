"""An engine is stopped while operations are queued before and after the stop."""

from __future__ import annotations

from durable import Delivered, WorkflowStatus
from durable.backends.memory import MemoryBackend
from durable.engine.config import EngineConfig
from durable.engine.operations import AwaitEnd, FindWorkflow, RecordActivity, RunActivity
from durable.errors import EngineClosed
from tests.engine.direct import DirectEngine, call_of, event_of
from tests.engine.flows import EVERY, go, spinner, waiter, worker
from tests.engine.stepped import SteppedEngine


def test_work_before_the_stop_is_done() -> None:
    """Operations queued before the stop are committed and answered; those queued after it are refused."""
    stepped = SteppedEngine()
    start, send = stepped.letter(call_of(waiter(), "w"), "start"), stepped.letter(event_of(go, 5, to="w"), "send")
    late = stepped.letter(call_of(waiter(), "late"), "late")
    stepped.run(start, send, behind=(late,))
    assert (start.error, send.reply) == (None, Delivered(("w",)))
    assert isinstance(late.error, EngineClosed)
    assert stepped.log[-2:] == ["release", "wake late"]
    assert stepped.released[-1].is_last
    assert stepped.released[-1].end is None


def test_work_behind_the_stop_is_not_stored() -> None:
    """An operation queued after the stop leaves no trace in the store, so its sender can repeat it."""
    stepped = SteppedEngine()
    stepped.run(behind=(stepped.letter(call_of(waiter(), "late")),))
    assert not stepped.store.workflows
    assert stepped.store.clean


def test_more_work_than_one_batch_before_the_stop() -> None:
    """A stop behind more work than fits into one batch is handled after all of it."""
    stepped = SteppedEngine(EngineConfig(max_batch=1))
    letters = [stepped.letter(call_of(waiter(), f"w{number}")) for number in range(7)]
    stepped.run(*letters)
    assert len(stepped.store.workflows) == 7
    assert all(letter.error is None for letter in letters)


def test_answer_of_an_activity_before_the_stop_is_recorded() -> None:
    """An activity that ended before the stop is recorded, and not run again by the next engine."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "w"))
    (effect,) = stepped.released[-1].activities
    assert isinstance(effect, RunActivity)
    answer = RecordActivity(
        key=effect.key, round=0, position=effect.position, attempt=1, outcome="5", value=5
    )  # fmt: skip
    stepped.coordinator.submit(stepped.letter(answer))
    stepped.run()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(stepped.store))
    engine.recover()
    assert engine.result() == 5
    assert engine.activities == []


def test_next_round_is_left_to_the_next_engine() -> None:
    """A stop between two rounds is clean, and the next engine continues with the next round."""
    stepped = SteppedEngine()
    stepped.run(stepped.letter(call_of(spinner(3), "w")))
    assert stepped.store.clean
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(stepped.store))
    assert engine.record().round < 3
    engine.recover()
    assert engine.result() == 99


def test_those_who_wait_for_an_end_are_told_of_the_stop() -> None:
    """A caller that waits for the end of a workflow gets an error when the engine stops first."""
    stepped = SteppedEngine()
    watcher, query = stepped.letter(AwaitEnd("w")), stepped.letter(FindWorkflow("w"))
    stepped.run(stepped.letter(call_of(waiter(), "w")), watcher, query)
    assert isinstance(watcher.error, EngineClosed)
    assert query.reply.status is WorkflowStatus.SUSPENDED
