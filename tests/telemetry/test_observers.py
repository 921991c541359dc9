"""Observers are told what happens, after the commit, and whatever they do, the engine goes on."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from pathlib import Path

import pytest

from durable import EngineConfig, WorkflowEngine, WorkflowFailed, WorkflowStatus, WrongType
from durable.telemetry import (
    AttemptFailed,
    AttemptFinished,
    BodyStepped,
    Committed,
    EngineOpened,
    Fact,
    WorkflowEnded,
)
from tests.scenarios.kit import waiting
from tests.telemetry.kit import SOON, Notes, approval, charge, declined, order, parent

pytestmark = pytest.mark.anyio
ENGINE = ("Committed", "EngineOpened", "Recovered", "EngineStopped")


async def run_order(engine: WorkflowEngine, id: str = "o") -> str:
    """Run an order to its end."""
    handle = await engine.start(order(5), id=id)
    await waiting(engine, id, "event")
    await engine.send_event(approval, "ann", to=id)
    return await handle.result(timeout=SOON)


async def test_facts_of_a_run_come_in_order() -> None:
    """One run, from its start to its end, is told as it happened."""
    notes = Notes()
    async with WorkflowEngine("memory://", observers=[notes]) as engine:
        assert await run_order(engine) == "ann 5"
    assert notes.names(without=ENGINE) == [
        "WorkflowStarted", "BodyStepped", "AttemptQueued",
        "AttemptBegun", "AttemptFinished",
        "BodyStepped", "WorkflowWaiting",
        "EventTaken", "BodyStepped", "AttemptQueued", "WorkflowResumed", "EventSent",
        "AttemptBegun", "AttemptFinished",
        "BodyStepped", "WorkflowEnded",
    ]  # fmt: skip
    assert (notes.names()[0], notes.names()[-1]) == ("EngineOpened", "EngineStopped")


async def test_facts_of_a_failure_say_what_failed() -> None:
    """Each failed attempt is told with its error, its number and whether another follows, then the failed run."""
    notes = Notes()
    async with WorkflowEngine("memory://", observers=[notes]) as engine:
        with pytest.raises(WorkflowFailed):
            await (await engine.start(declined(), id="d")).result(timeout=SOON)
    failed = [fact for fact in notes.facts if isinstance(fact, AttemptFailed)]
    ended = [fact for fact in notes.facts if isinstance(fact, AttemptFinished)]
    assert [(fact.attempt, fact.delay_us is None) for fact in failed] == [(1, False), (2, True)]
    assert [(fact.outcome, fact.error_type) for fact in ended] == [("failed", "builtins.ValueError")] * 2
    (end,) = (fact for fact in notes.facts if isinstance(fact, WorkflowEnded))
    assert (end.workflow_id, end.status.value, "declined" in (end.error or "")) == ("d", "failed", True)


async def test_replay_is_told_as_such(tmp_path: Path) -> None:
    """After a restart the body is rebuilt: one fact says so, and no step is told again."""
    first, second = Notes(), Notes()
    async with WorkflowEngine(tmp_path / "store.db", observers=[first]) as engine:
        await engine.start(order(5), id="o")
        await waiting(engine, "o", "event")
    async with WorkflowEngine(tmp_path / "store.db", observers=[second]) as engine:
        await engine.send_event(approval, "ann", to="o")
        await engine.handle("o").result(timeout=SOON)
    steps = [(fact.kind, fact.position) for fact in first.facts + second.facts if isinstance(fact, BodyStepped)]
    assert steps == [("", ""), ("activity", "0"), ("event", "1"), ("activity", "2")]
    assert second.names(without=ENGINE)[0] == "WorkflowReplayed"


def counted(notes: Notes) -> dict[WorkflowStatus, int]:
    """The unfinished runs by status: those at the opening, and what every commit has changed."""
    runs: Counter[WorkflowStatus] = Counter()
    for fact in notes.facts:
        if isinstance(fact, EngineOpened):
            runs.update(fact.runs)
        elif isinstance(fact, Committed):
            for (before, after), count in fact.moves.items():
                if before is not None:
                    runs[before] -= count
                runs[after] += count
    return {status: count for status, count in runs.items() if count and not status.is_terminal}


async def test_statuses_are_counted_by_their_changes(tmp_path: Path) -> None:
    """The counts at the opening and the moves of all commits add up to what is stored, in each life of the store."""
    for life in range(2):
        notes = Notes()
        async with WorkflowEngine(tmp_path / "store.db", observers=[notes]) as engine:
            for number in range(3):
                await engine.start(order(number), id=f"o{life}-{number}")
                await waiting(engine, f"o{life}-{number}", "event")
            await (await engine.start(parent())).result(timeout=SOON)
            await engine.cancel(f"o{life}-0")
        assert counted(notes) == {WorkflowStatus.SUSPENDED: 2 * (life + 1)}


class Raising(Notes):
    """An observer that raises for every fact."""

    def observe(self, fact: Fact) -> None:
        """Keep it, and raise."""
        super().observe(fact)
        raise KeyboardInterrupt("observer")


async def test_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is told every fact, its first error is logged, and the run and the other observer are not affected."""
    raising, notes = Raising(), Notes()
    async with WorkflowEngine("memory://", observers=[raising, notes]) as engine:
        assert await run_order(engine) == "ann 5"
    assert raising.names() == notes.names()
    assert [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR] == [
        "observer Raising raised; only its first error is logged"
    ]


class Blocking:
    """An observer that never comes back, until the test lets it."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def observe(self, fact: Fact) -> None:
        """Block."""
        self.may_end.wait()


async def test_observer_that_blocks_delays_nothing() -> None:
    """Runs go on and end, another observer sees them, and the shutdown does not wait for it for long."""
    blocking, notes = Blocking(), Notes()
    try:
        async with WorkflowEngine("memory://", observers=[blocking, notes]) as engine:
            for number in range(20):
                assert await run_order(engine, f"o{number}") == "ann 5"
        assert notes.names().count("WorkflowEnded") == 20
    finally:
        blocking.may_end.set()


async def test_slow_observer_sees_everything_in_the_end() -> None:
    """One that is slower than the engine gets all facts, in order, before the engine is left."""
    notes = Notes()

    class Slow(Notes):
        def observe(self, fact: Fact) -> None:
            threading.Event().wait(0.001)
            super().observe(fact)

    slow = Slow()
    async with WorkflowEngine("memory://", observers=[slow, notes]) as engine:
        for number in range(10):
            await run_order(engine, f"o{number}")
    assert slow.facts == notes.facts


async def test_what_is_not_an_observer_is_refused() -> None:
    """An object without `observe` is refused when the engine is made."""
    with pytest.raises(WrongType, match="observe"):
        WorkflowEngine("memory://", observers=[charge])  # type: ignore[list-item]


async def test_silent_engine_writes_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """With `log=False` nothing is logged, while observers are still told."""
    caplog.set_level(logging.DEBUG, "durable")
    notes = Notes()
    async with WorkflowEngine("memory://", config=EngineConfig(log=False), observers=[notes]) as engine:
        with pytest.raises(WorkflowFailed):
            await (await engine.start(declined())).result(timeout=SOON)
    assert [line for line in caplog.records if line.name == "durable"] == []
    assert "WorkflowEnded" in notes.names()


async def test_log_is_complete_and_in_order_when_the_engine_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Every failed attempt and run of many has its line, in the order of the commits, once the block is left."""
    caplog.set_level(logging.INFO, "durable")
    notes = Notes()
    async with WorkflowEngine("memory://", observers=[notes]) as engine:
        handles = [await engine.start(declined(), id=f"d{number}") for number in range(100)]
        for handle in handles:
            with pytest.raises(WorkflowFailed):
                await handle.result(timeout=SOON)
    told = [fact for fact in notes.facts if isinstance(fact, (AttemptFailed, WorkflowEnded))]
    lines = [(getattr(line, "workflow_id", None), getattr(line, "attempt", None)) for line in caplog.records]
    assert lines == [(fact.workflow_id, getattr(fact, "attempt", None)) for fact in told]
    assert len(lines) == 300
