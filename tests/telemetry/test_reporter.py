"""The queue of an observer is bounded; what does not fit is counted, and the log says so once."""

from __future__ import annotations

import logging
import threading

import pytest

from durable.engine.host.reporter import Reporter
from durable.engine.operations.observers import FACTS_MAX
from durable.model.clock import SystemClock
from durable.telemetry import Fact, FactsDropped, Notice
from tests.telemetry.kit import Notes
from tests.telemetry.test_observers import Blocking


def note(number: int) -> Notice:
    """A fact with a number."""
    return Notice(at_us=number, level=logging.INFO, text=str(number))


def dropped(notes: Notes) -> list[tuple[str, int]]:
    """What was told about facts that were dropped."""
    return [(fact.observer, fact.count) for fact in notes.facts if isinstance(fact, FactsDropped)]


def test_full_queue_drops_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    """Facts that find no room are told to the other observers as a number, and to the log once."""
    blocking, notes = Blocking(), Notes()
    reporter = Reporter([blocking, notes], SystemClock(), log=True)
    reporter.tell(note(0))
    while reporter._lanes[0]._facts:
        # Until the first fact is with the observer.
        pass
    for _ in range(2):
        reporter.tell(*map(note, range(FACTS_MAX // 2)))
    reporter.flush(0)
    for _ in range(3):
        notes.until(lambda facts: not reporter._lanes[1]._facts)
        reporter.tell(note(1), note(2))
    blocking.may_end.set()
    reporter.close(10.0)
    assert dropped(notes) == [("Blocking", 2)] * 3
    assert [line.getMessage() for line in caplog.records if "too slow" in line.getMessage()] == [
        "observer Blocking is too slow: 2 facts were dropped, and more may follow without a line"
    ]


def test_observer_that_wakes_up_gets_what_was_kept() -> None:
    """After a pause it is told the facts that had room, in order, and then new ones."""
    may_go, seen = threading.Event(), Notes()

    class Late:
        def observe(self, fact: Fact) -> None:
            may_go.wait()
            seen.observe(fact)

    reporter = Reporter([Late()], SystemClock(), log=False)
    reporter.tell(*map(note, range(100)))
    may_go.set()
    reporter.tell(note(100))
    reporter.close(10.0)
    assert [fact.at_us for fact in seen.facts] == [*range(101)]


def test_shutdown_waits_for_a_full_queue_only_for_a_while() -> None:
    """`close` returns although the observer never does, and flushes the others."""
    blocking, notes = Blocking(), Notes()
    reporter = Reporter([blocking, notes], SystemClock(), log=False)
    for _ in range(3):
        reporter.tell(*map(note, range(FACTS_MAX // 2)))
    began = SystemClock.monotonic()
    reporter.close(0.2)
    assert SystemClock.monotonic() - began < 5
    blocking.may_end.set()
    reporter.flush(10.0)
    assert len(notes.facts) >= FACTS_MAX


def test_log_that_was_full_says_how_much_was_lost(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that blocks loses lines; when it is back, a line says how many."""
    caplog.set_level(logging.INFO, "durable")
    blocking = Blocking()

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            blocking.may_end.wait()

    handler = Stuck()
    logging.getLogger("durable").addHandler(handler)
    monkeypatch.setattr("durable.engine.host.reporter.FACTS_MAX", 10)
    try:
        reporter = Reporter([], SystemClock(), log=True)
        for _ in range(3):
            reporter.tell(*map(note, range(10)))
        blocking.may_end.set()
        reporter.flush(10.0)
        reporter.tell(note(0))
        reporter.close(10.0)
    finally:
        logging.getLogger("durable").removeHandler(handler)
    assert sum("observer log is too slow" in line.getMessage() for line in caplog.records) == 1


def test_fact_after_the_end_is_still_observed() -> None:
    """A closed reporter starts a thread for a late fact, and that thread ends with it."""
    notes = Notes()
    reporter = Reporter([notes], SystemClock(), log=False)
    reporter.close(1.0)
    reporter.tell(note(1))
    notes.until(lambda facts: len(facts) == 1)
    reporter.flush(1.0)
    assert not any(thread.name == "durable-observer-Notes" for thread in threading.enumerate() if thread.is_alive())
