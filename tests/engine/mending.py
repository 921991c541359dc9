"""What the tests of new code and of operators share: the calls, a picture of all that is stored, and a restart."""

from __future__ import annotations

import json
from typing import Any

from durable.backends.base import Workflows
from durable.engine.operations import DescribeWorkflow, ForkWorkflow, RepairWorkflow, RetryWorkflow, RunActivity
from durable.errors import DurableError
from durable.runner.definitions import WorkflowDef
from tests.engine.desk import ALL, Desk


def retry(desk: Desk, id: str = "w") -> None:
    """Retry a workflow; a refusal is raised."""
    desk.do(RetryWorkflow(id))
    desk.settle()


def fork(desk: Desk, position: str, id: str = "w", new_id: str = "f") -> None:
    """Fork a workflow; a refusal is raised."""
    desk.do(ForkWorkflow(id, position, new_id))
    desk.settle()


def repair(desk: Desk, position: str, value: Any, id: str = "w", reason: str = "it was wrong") -> None:
    """Replace a result; a refusal is raised."""
    desk.do(RepairWorkflow(id, position, json.dumps(value), reason))
    desk.settle()


def told(desk: Desk, id: str = "w") -> list[str]:
    """What stands in a history, in short."""
    return [f"{one.kind.value} {one.position} {one.status.value}" for one in desk.history(id)]


def stored(desk: Desk) -> dict[str, Any]:
    """Every row of every workflow."""
    records = desk.backend.find(Workflows(limit=ALL))
    return {one.id: (one, desk.history(one.id), desk.waits(one.id)) for one in records} | {"letters": desk.letters()}


def running(desk: Desk) -> list[RunActivity]:
    """What runs, in one order."""
    return sorted(desk.activities, key=lambda one: (one.key, one.position))


def refused(desk: Desk, act: Any) -> DurableError:
    """Why something was refused; nothing was written, and nothing was started or stopped."""
    before, effects = stored(desk), len(desk.effects)
    try:
        act()
    except DurableError as error:
        assert stored(desk) == before
        assert len(desk.effects) == effects
        return error
    raise AssertionError("it was accepted")


def _bodies(desk: Desk) -> dict[str, Any]:
    """What every workflow that goes on waits for."""
    going = [one for one in desk.backend.find(Workflows(limit=ALL)) if not one.status.is_terminal]
    return {one.id: desk.do(DescribeWorkflow(one.id)) for one in going}


def check_restart(desk: Desk, *workflows: WorkflowDef[Any, Any]) -> None:
    """A restart changes nothing: neither what is stored, nor what runs, nor what the bodies wait for."""
    before, runs, bodies = stored(desk), running(desk), _bodies(desk)
    desk.restart(*workflows)
    assert _bodies(desk) == bodies
    assert stored(desk) == before
    assert running(desk) == runs
