"""Log lines that only a crash, new code or another engine causes, each with its fields."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from durable import Durable, EngineConfig, sleep, workflow
from durable.backends.memory import MemoryBackend
from durable.engine.operations import RecoverWorkflows, ResumeWorkflow, RetryWorkflow, SweepEvents, TerminateWorkflow
from tests.engine.direct import DirectEngine, call_of
from tests.engine.flows import EVERY, late_waiter, other, waiter, worker
from tests.engine.stepped import SteppedEngine


def lines(caplog: pytest.LogCaptureFixture, *fields: str) -> list[tuple[Any, ...]]:
    """Each logged line with its level and some of its extra fields."""
    return [
        (entry.levelname, entry.getMessage(), *(getattr(entry, field, None) for field in fields))
        for entry in caplog.records
    ]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    """Log at the level that services use."""
    caplog.set_level(logging.INFO, "durable")


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (["a"], "the process died when workflow a began an activity; it is on trial"),
        (
            list("abcdefg"),
            "the process died when 7 workflows began activities (a, b, c, d, e and 2 more); 4 of them run first",
        ),
    ],
)
def test_suspects_are_named_once(caplog: pytest.LogCaptureFixture, ids: list[str], text: str) -> None:
    """After the second crash in a row, one warning names the workflows on trial, with all of them in a field."""
    stepped = SteppedEngine()
    stepped.ask(*(call_of(worker(), id) for id in ids))
    for _ in range(2):
        caplog.clear()
        stepped = SteppedEngine(store=stepped.store)
        stepped.ask(RecoverWorkflows())
    assert lines(caplog, "workflow_ids") == [("WARNING", text, ids)]


def test_body_that_died_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """A crash in a body is one warning with the workflow's id, its name and its crash count."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    stepped.store.mark[0] = 1
    SteppedEngine(store=stepped.store)
    text = "the process died while the body of workflow w (engine.waiter) ran: crash 1 of 3"
    assert lines(caplog, "workflow_id", "workflow_name") == [("WARNING", text, "w", "engine.waiter")]


def test_engine_that_was_superseded_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """An engine whose store was taken over writes one critical line, however many calls it refuses."""
    stepped = SteppedEngine()
    MemoryBackend(stepped.store).open("another")
    stepped.run(stepped.letter(call_of(waiter(), "v")), stepped.letter(call_of(waiter(), "w")))
    ((level, text),) = lines(caplog)
    assert level == "CRITICAL"
    assert text.startswith("the engine has stopped: ")
    assert "another engine" in text


def test_parked_workflow_is_logged_with_the_position(caplog: pytest.LogCaptureFixture) -> None:
    """A workflow that no longer fits its history causes one warning, which names the diverging position."""

    @workflow(name="engine.late_waiter")
    def changed() -> Durable[str]:
        return (yield from sleep(1)).isoformat()

    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.finish(engine.activities[0], 1)
    engine.restart(changed)
    for _ in range(2):
        engine.do(ResumeWorkflow(engine.record().key))
    ((level, text, *fields),) = lines(caplog, "workflow_id", "workflow_name", "position")
    assert (level, fields) == ("WARNING", ["w", "engine.late_waiter", "0"])
    assert text.startswith("workflow w (engine.late_waiter) is parked (diverged)")


def test_swept_letters_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """When dead letters past their retention are removed, one line says how many."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_retention=3600))
    engine.start(waiter())
    for number in range(2):
        engine.send(other, number, to="w")
    engine.do(TerminateWorkflow("w"))
    engine.clock.advance(3601)
    caplog.clear()
    engine.do(SweepEvents())
    text = "2 dead letters were older than dead_letter_retention and are removed"
    assert lines(caplog) == [("INFO", text)]


def test_reason_to_retry_a_parked_workflow_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its history does not change, so the line has the reason; without one there is no line."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_crashes=1))
    for reason in ("the driver is repaired", None):
        engine.start(waiter(), f"{reason}")
        engine.state.mark[0] = engine.record(f"{reason}").key
        engine.restart(*EVERY, clean=False)
        caplog.clear()
        assert engine.do(RetryWorkflow(f"{reason}", reason)) is None
        text = f"workflow {reason!r} was parked and is retried: {reason}"
        fields = ("workflow_id", "workflow_name")
        assert lines(caplog, *fields) == ([("INFO", text, reason, "engine.waiter")] if reason else [])
        engine.settle()
