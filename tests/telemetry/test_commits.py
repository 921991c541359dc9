"""Facts follow commits: none without one, none twice, all in their order."""

from __future__ import annotations

import pytest

from durable.engine.config import EngineConfig
from durable.errors import StorageUnavailable
from durable.telemetry import CommitFailed, Committed, Notice, WorkflowStarted
from durable.testing.faults import Fault
from tests.engine.direct import DirectEngine, call_of
from tests.engine.flows import EVERY, waiter, worker
from tests.engine.stepped import SteppedEngine
from tests.telemetry.kit import Notes


def observed(config: EngineConfig | None = None) -> tuple[SteppedEngine, Notes]:
    """A coordinator that somebody observes."""
    notes = Notes()
    return SteppedEngine(config or EngineConfig(), tell=notes.tell, is_observed=True), notes


def started(notes: Notes) -> list[str]:
    """The workflows whose start was told."""
    return [fact.workflow_id for fact in notes.facts if isinstance(fact, WorkflowStarted)]


def test_nothing_is_told_of_a_batch_that_was_not_committed() -> None:
    """A batch whose commit fails for good leaves no fact about its workflows."""
    stepped, notes = observed(EngineConfig(commit_patience=0.2))
    stepped.backend.plan = dict.fromkeys(range(1, 1000), Fault.FAIL_BEFORE)
    with pytest.raises(StorageUnavailable):
        stepped.ask(call_of(waiter(), "a"), call_of(worker(), "b"))
    assert notes.names() == ["EngineOpened", "CommitFailed"]


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_nothing_is_told_twice_when_a_commit_is_repeated(fault: Fault) -> None:
    """A commit that succeeds at a later try, or had happened, is told once, with the failure before it."""
    stepped, notes = observed()
    stepped.backend.plan = dict.fromkeys((1, 2), fault) if fault is Fault.FAIL_BEFORE else {1: fault}
    stepped.ask(call_of(waiter(), "a"), call_of(worker(), "b"))
    assert started(notes) == ["a", "b"]
    kinds = [type(fact) for fact in notes.facts if isinstance(fact, (CommitFailed, Notice, WorkflowStarted, Committed))]
    assert kinds == [CommitFailed, Notice, WorkflowStarted, WorkflowStarted, Committed]


def test_facts_come_in_the_order_of_the_commits() -> None:
    """The facts of each batch are followed by its commit, with its number of operations and its size."""
    stepped, notes = observed()
    stepped.ask(call_of(waiter(), "a"), call_of(waiter(), "b"))
    stepped.ask(call_of(waiter(), "c"))
    assert [fact.workflow_id if isinstance(fact, WorkflowStarted) else "commit" for fact in notes.facts
            if isinstance(fact, (WorkflowStarted, Committed))] == ["a", "b", "commit", "c", "commit"]  # fmt: skip
    commits = [fact for fact in notes.facts if isinstance(fact, Committed)]
    # Each of these has a row and the row of its wait.
    assert [(fact.operations, fact.rows, fact.loaded) for fact in commits] == [(2, 4, 2), (1, 2, 3)]


def test_waiting_time_of_a_call_is_the_lag_of_its_commit() -> None:
    """`lag_us` is the time from the arrival of the oldest call until its batch is decided."""
    stepped, notes = observed()
    stepped.settle()
    stepped.coordinator.submit(stepped.letter(call_of(waiter(), "a")))
    stepped.clock.advance(2)
    stepped.coordinator.submit(stepped.letter(call_of(waiter(), "b")))
    stepped.clock.advance(1)
    stepped.settle()
    assert [fact.lag_us for fact in notes.facts if isinstance(fact, Committed)] == [3_000_000]


def test_without_observers_no_fact_of_a_step_is_made() -> None:
    """A run that goes well leaves nothing but its activities and its end among the effects."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.finish(engine.activities[0], 1)
    assert {type(effect).__name__ for effect in engine.effects} <= {"RunActivity", "Ended", "StopActivity", "Follow"}
