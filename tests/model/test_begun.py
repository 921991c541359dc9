"""What the row and the history of a workflow tell about whether its body has run."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable.model.begun import Begun, begun
from durable.model.records import WorkflowRecord, WorkflowStatus

START, LATER = 1000, 2000
SUSPENDED, RUNNING, PARKED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.PARKED
DELAYED = {"start_at": LATER, "wake_at": LATER}


def row(status: WorkflowStatus, **fields: Any) -> WorkflowRecord:
    """A stored workflow, not delayed unless `fields` say so."""
    record = WorkflowRecord(key=1, id="w", name="w", status=status, input="{}", created_at=START, start_at=START)
    return attrs.evolve(record, **fields)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (row(SUSPENDED, **DELAYED), Begun.NO),
        (row(PARKED, start_at=LATER), Begun.YES),
        (row(RUNNING, **DELAYED), Begun.YES),
        (row(SUSPENDED, start_at=LATER, wake_at=LATER + 1), Begun.YES),
        (row(SUSPENDED, wake_at=START), Begun.YES),
        (row(SUSPENDED), Begun.YES),
        (row(RUNNING), Begun.YES),
        (row(RUNNING, round=1, start_at=LATER), Begun.MAYBE),
        (row(PARKED, round=1, start_at=LATER), Begun.MAYBE),
        (row(RUNNING, round=1, **DELAYED), Begun.MAYBE),
        (row(SUSPENDED, round=1, **DELAYED), Begun.YES),
    ],
)
def test_begun_tells_a_delayed_start_from_a_next_round(record: WorkflowRecord, expected: Begun) -> None:
    """Without entries, only a delayed start has certainly not begun, and only a next round may not have."""
    assert begun(record, has_entries=False) is expected


@pytest.mark.parametrize("record", [row(SUSPENDED, **DELAYED), row(RUNNING, round=1)])
def test_begun_with_entries_is_certain(record: WorkflowRecord) -> None:
    """A body with a recorded entry has run, whatever its row looks like."""
    assert begun(record, has_entries=True) is Begun.YES
