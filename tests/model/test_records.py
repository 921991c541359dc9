"""Records: the whole transition table, and instants at the surface."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from durable.errors import InvariantViolated
from durable.model.dead_letters import DeadLetter
from durable.model.records import (
    TRANSITIONS,
    EntryKind,
    EntryStatus,
    HistoryEntry,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
RUNNING, SUSPENDED, PARKED, SUCCEEDED, FAILED, CANCELLED = WorkflowStatus
# Written out again, so that a change of the table is a change in two files.
ALLOWED = {
    (RUNNING, SUSPENDED), (RUNNING, PARKED), (RUNNING, SUCCEEDED), (RUNNING, FAILED), (RUNNING, CANCELLED),
    (SUSPENDED, RUNNING), (SUSPENDED, PARKED), (SUSPENDED, SUCCEEDED), (SUSPENDED, FAILED), (SUSPENDED, CANCELLED),
    (PARKED, RUNNING), (PARKED, SUSPENDED), (PARKED, CANCELLED),
    (FAILED, RUNNING), (CANCELLED, RUNNING),
}  # fmt: skip


def a_record(status: WorkflowStatus) -> WorkflowRecord:
    """A record in a status."""
    return WorkflowRecord(key=1, id="w-1", name="checkout", status=status, input="{}", created_at=1, start_at=1)


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(WorkflowStatus, repeat=2)), ids=lambda status: status.value
)
def test_status_changes_only_by_the_table(before: WorkflowStatus, after: WorkflowStatus) -> None:
    """Of all pairs of statuses exactly those of the table are possible; keeping a status is not a transition."""
    record = a_record(before)
    if before is after or (before, after) in ALLOWED:
        changed = record.with_status(after, wake_at=7)
        assert changed == attrs.evolve(record, status=after, wake_at=7)
        assert record.status is before
    else:
        with pytest.raises(InvariantViolated, match=f"'w-1' cannot go from {before.value} to {after.value}"):
            record.with_status(after)


def test_status_is_terminal_when_nothing_follows_by_itself() -> None:
    """Succeeded, failed and cancelled are the ends, which only a retry reopens; each can be reached from the others."""
    assert {status for status in WorkflowStatus if status.is_terminal} == {SUCCEEDED, FAILED, CANCELLED}
    assert set(TRANSITIONS) == set(WorkflowStatus) - {SUCCEEDED}
    for status in TRANSITIONS:
        reached = {status}
        for _ in WorkflowStatus:
            reached |= {after for status in reached for after in TRANSITIONS.get(status, ())}
        assert reached == set(WorkflowStatus)


def test_record_never_changes() -> None:
    """A record is a value: a change makes a new one."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        a_record(RUNNING).status = FAILED  # type: ignore[misc]


def test_stored_words_are_pinned() -> None:
    """These texts are in existing stores: renaming one would lose workflows."""
    assert [status.value for status in WorkflowStatus] == [
        "running", "suspended", "parked", "succeeded", "failed", "cancelled",
    ]  # fmt: skip
    assert [status.value for status in EntryStatus] == ["ok", "error", "retry"]
    assert {"activity", "timer", "event", "child", "cancel"} <= {kind.value for kind in EntryKind}
    assert {"diverged", "unknown code", "unreadable", "crashed"} <= {reason.value for reason in ParkReason}


def test_entry_shows_instants_as_datetimes() -> None:
    """Stored microseconds are shown as aware datetimes; None stays None."""
    entry = HistoryEntry(1, "0", EntryKind.ACTIVITY, "pay", EntryStatus.RETRY, "null", 5_000_000, 7_000_000)
    assert entry.at == EPOCH + timedelta(seconds=5)
    assert entry.retry_at == EPOCH + timedelta(seconds=7)
    assert HistoryEntry(1, "0", EntryKind.TIMER, "timer", EntryStatus.OK, "null", 0).retry_at is None


def test_dead_letter_shows_instants_as_datetimes() -> None:
    """A dead letter tells when it was sent and when its workflow ended."""
    letter = DeadLetter(
        id=1, name="paid", workflow_id="w", payload_json="1", sent_at_us=1_000_000, died_at_us=2_000_000
    )
    assert (letter.sent_at, letter.died_at) == (EPOCH + timedelta(seconds=1), EPOCH + timedelta(seconds=2))
