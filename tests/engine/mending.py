"""What the tests of new code and of operators share: the calls, a picture of all that is stored, and a restart."""

from __future__ import annotations

import json
from typing import Any

from durable.backends.base import Workflows
from durable.engine.operations import DescribeWorkflow, ForkWorkflow, RepairWorkflow, RetryWorkflow, RunActivity
from durable.errors import DurableError
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import ALL, DirectEngine


def retry(engine: DirectEngine, id: str = "w") -> None:
    """Retry a workflow; a refusal is raised."""
    engine.do(RetryWorkflow(id))
    engine.settle()


def fork(engine: DirectEngine, position: str, id: str = "w", new_id: str = "f") -> None:
    """Fork a workflow; a refusal is raised."""
    engine.do(ForkWorkflow(id, position, new_id))
    engine.settle()


def repair(engine: DirectEngine, position: str, value: Any, id: str = "w", reason: str = "it was wrong") -> None:
    """Replace a result; a refusal is raised."""
    engine.do(RepairWorkflow(id, position, json.dumps(value), reason))
    engine.settle()


def told(engine: DirectEngine, id: str = "w") -> list[str]:
    """What stands in a history, in short."""
    return [f"{one.kind.value} {one.position} {one.status.value}" for one in engine.history(id)]


def stored(engine: DirectEngine) -> dict[str, Any]:
    """Every row of every workflow."""
    records = engine.backend.find(Workflows(limit=ALL))
    return {one.id: (one, engine.history(one.id), engine.waits(one.id)) for one in records} | {
        "letters": engine.letters()
    }


def running(engine: DirectEngine) -> list[RunActivity]:
    """What runs, in one order."""
    return sorted(engine.activities, key=lambda one: (one.key, one.position))


def refused(engine: DirectEngine, act: Any) -> DurableError:
    """Why something was refused; nothing was written, and nothing was started or stopped."""
    before, effects = stored(engine), len(engine.effects)
    try:
        act()
    except DurableError as error:
        assert stored(engine) == before
        assert len(engine.effects) == effects
        return error
    raise AssertionError("it was accepted")


def _bodies(engine: DirectEngine) -> dict[str, Any]:
    """What every workflow that goes on waits for."""
    going = [one for one in engine.backend.find(Workflows(limit=ALL)) if not one.status.is_terminal]
    return {one.id: engine.do(DescribeWorkflow(one.id)) for one in going}


def check_restart(engine: DirectEngine, *workflows: WorkflowDef[Any, Any]) -> None:
    """A restart changes nothing: neither what is stored, nor what runs, nor what the bodies wait for."""
    before, runs, bodies = stored(engine), running(engine), _bodies(engine)
    engine.restart(*workflows)
    assert _bodies(engine) == bodies
    assert stored(engine) == before
    assert running(engine) == runs
