"""What the tests of new code and of operators share: the operations, a snapshot of the store, and a restart."""

from __future__ import annotations

import json
from typing import Any

from durable.backends.base import Workflows
from durable.engine.operations import DescribeWorkflow, ForkWorkflow, RepairWorkflow, RetryWorkflow, RunActivity
from durable.errors import DurableError
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import ALL, DirectEngine


def retry(engine: DirectEngine, id: str = "w") -> None:
    """Retry a workflow. Raises the refusal."""
    engine.do(RetryWorkflow(id))
    engine.settle()


def fork(engine: DirectEngine, position: str, id: str = "w", new_id: str = "f") -> None:
    """Fork a workflow. Raises the refusal."""
    engine.do(ForkWorkflow(id, position, new_id))
    engine.settle()


def repair(engine: DirectEngine, position: str, value: Any, id: str = "w", reason: str = "it was wrong") -> None:
    """Replace a result. Raises the refusal."""
    engine.do(RepairWorkflow(id, position, json.dumps(value), reason))
    engine.settle()


def outline(engine: DirectEngine, id: str = "w") -> list[str]:
    """A history in short: kind, position and status of each entry."""
    return [f"{entry.kind.value} {entry.position} {entry.status.value}" for entry in engine.history(id)]


def stored(engine: DirectEngine) -> dict[str, Any]:
    """Every row of every workflow."""
    records = engine.backend.find(Workflows(limit=ALL))
    return {record.id: (record, engine.history(record.id), engine.waits(record.id)) for record in records} | {
        "letters": engine.letters()
    }


def running(engine: DirectEngine) -> list[RunActivity]:
    """The running activities, in a fixed order."""
    return sorted(engine.activities, key=lambda effect: (effect.key, effect.position))


def refused(engine: DirectEngine, act: Any) -> DurableError:
    """Why an operation was refused. Checks that nothing was written, started or stopped."""
    before, effects = stored(engine), len(engine.effects)
    try:
        act()
    except DurableError as error:
        assert stored(engine) == before
        assert len(engine.effects) == effects
        return error
    raise AssertionError("it was accepted")


def _bodies(engine: DirectEngine) -> dict[str, Any]:
    """What every unfinished workflow waits for."""
    unfinished = [record for record in engine.backend.find(Workflows(limit=ALL)) if not record.status.is_terminal]
    return {record.id: engine.do(DescribeWorkflow(record.id)) for record in unfinished}


def check_restart(engine: DirectEngine, *workflows: WorkflowDef[Any, Any]) -> None:
    """A restart changes nothing: not the store, not the running activities, not what the bodies wait for."""
    before, runs, bodies = stored(engine), running(engine), _bodies(engine)
    engine.restart(*workflows)
    assert _bodies(engine) == bodies
    assert stored(engine) == before
    assert running(engine) == runs
