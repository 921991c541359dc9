"""Invariants of children: each starts once, its parent is woken when it ends, and it ends with its parent if it must.

Rules like those of `rules`; a child in another shard is judged by the letters between the two (L6, L7).
"""

from __future__ import annotations

import json

from durable.backends.base import Batch
from durable.engine.operations.messages import CancelChild, ChildEnded, ParentEnded
from durable.model.error_codec import error_summary
from durable.model.homes import key_home
from durable.model.position import place
from durable.model.records import (
    EntryKind,
    EntryStatus,
    EventWait,
    HistoryEntry,
    OnParentClose,
    WorkflowRecord,
    WorkflowStatus,
)
from simulation.ledger import Ledger
from simulation.violation import Violation

_ENDS = {"ChildWorkflowFailed": WorkflowStatus.FAILED, "ChildWorkflowCancelled": WorkflowStatus.CANCELLED}


def _after(ledger: Ledger, batch: Batch, key: int) -> WorkflowRecord:
    """A workflow's record after a commit that is not booked yet."""
    return batch.workflows_new.get(key) or batch.workflows_changed.get(key) or ledger.lives[key].record


def _by_id(ledger: Ledger, batch: Batch, id: str) -> WorkflowRecord | None:
    """A workflow's record after a commit that is not booked yet, by its id."""
    fresh = next((record for record in batch.workflows_new.values() if record.id == id), None)
    if fresh is None and id in ledger.ids:
        return _after(ledger, batch, ledger.ids[id])
    return fresh


def i20_a_child_is_started_once(ledger: Ledger, batch: Batch, now: int) -> None:
    """One child for each place, and its parent records how that child ended."""
    for record in batch.workflows_new.values():
        if record.parent_key is None:
            continue
        if (record.parent_key, record.parent_place) in ledger.children:
            raise Violation("I20", f"{record.id}: a second child at {record.parent_place} of {record.parent_key}")
    for key, entry in ledger.entries(EntryKind.CHILD):
        if entry.status is EntryStatus.OK:
            _check_child_result(ledger, batch, key, entry)


def _check_child_result(ledger: Ledger, batch: Batch, key: int, entry: HistoryEntry) -> None:
    """The result of an awaited child that a parent records is the child's result."""
    round = _after(ledger, batch, key).round
    where = entry.position if round == 0 else f"{round}:{entry.position}"
    child_key = ledger.children.get((key, where))
    child: WorkflowRecord | None
    if child_key is not None:
        child = _after(ledger, batch, child_key)
    else:
        new = batch.workflows_new.values()
        child = next((record for record in new if (record.parent_key, record.parent_place) == (key, where)), None)
    if child is None:
        raise Violation("I20", f"workflow {key} records {entry.outcome} at {where}, where it has no child")
    if child.status is not WorkflowStatus.SUCCEEDED or child.result != entry.outcome:
        raise Violation("I20", f"workflow {key} records {entry.outcome} of {child.id}, whose result is {child.result}")


def _name(row: EventWait) -> tuple[int, str, int]:
    return (row.workflow_key, row.position, row.serial)


def i20_a_parent_hears_of_its_child(ledger: Ledger, batch: Batch, now: int) -> None:
    """A child's end and its parent's wake-up are one commit.

    A parent with another new entry in this commit may have stopped waiting before its child ended.
    """
    busy = {key for key, _ in batch.history} | batch.restarted
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        is_news = record.status.is_terminal and not record.cancel_requested
        if record.parent_key is None or not is_news or record.parent_key in busy:
            continue
        parent = ledger.lives[record.parent_key]
        round, _, position = (record.parent_place or "").rpartition(":")
        is_waiting = not parent.record.status.is_terminal and parent.record.round == int(round or 0)
        if not ledger.is_here(record.parent_key):
            # L6: this commit must write a letter to the wait that is open in the parent's shard.
            row = parent.waits.get(position)
            messages = [letter.message for letter in ledger.post.written]
            answered = {message.wait for message in messages if isinstance(message, ChildEnded)}
            is_waiting = is_waiting and row is not None and row.asks is EntryKind.CHILD
            is_waiting = is_waiting and row is not None and _name(row) not in answered
        if is_waiting and parent.record.status is not WorkflowStatus.PARKED and position not in parent.done:
            raise Violation("I20", f"{record.id} has ended and {parent.record.id} still waits for it")


def i20_a_spawned_child_starts_with_its_step(ledger: Ledger, batch: Batch, now: int) -> None:
    """A child is spawned in the commit in which its parent records the spawn, at that place; and no other child is."""
    new = batch.workflows_new.values()
    spawned = {(record.parent_key, record.parent_place): record for record in new if record.on_parent_close}
    for key, entry in ledger.entries(EntryKind.SPAWN):
        if (elsewhere := _by_id(ledger, batch, json.loads(entry.outcome))) and not ledger.is_here(elsewhere.key):
            # It was started in its own shard before, and the answer has come by letter.
            spawned[key, place(_after(ledger, batch, key).round, entry.position)] = elsewhere
        child = spawned.pop((key, place(_after(ledger, batch, key).round, entry.position)), None)
        if child is None or child.id != json.loads(entry.outcome):
            raise Violation("I20", f"workflow {key} has spawned {entry.outcome} at {entry.position}: {child}")
    for (parent, where), child in spawned.items():
        # The entry of a round that ended in the same commit is gone. A parent elsewhere gets its answer by letter.
        if parent not in batch.restarted and ledger.is_here(child.parent_key or 0):
            raise Violation("I20", f"{child.id} is spawned at {where} of {parent}, which has no entry for it")


def i20_a_result_is_how_the_child_ended(ledger: Ledger, batch: Batch, now: int) -> None:
    """The result of a spawned child that a parent records is how the child ended."""
    for key, entry in ledger.entries(EntryKind.RESULT):
        child = _by_id(ledger, batch, entry.name)
        if child is not None and not ledger.is_here(child.key) and ledger.lives[child.key].was_reopened:
            # It had ended when the letter was written, and an operator has continued it since.
            continue
        if child is None or child.parent_key != key or not child.status.is_terminal:
            raise Violation("I20", f"workflow {key} records {entry.outcome} of {entry.name}: {child}")
        if entry.status is EntryStatus.OK:
            is_right = child.status is WorkflowStatus.SUCCEEDED and child.result == entry.outcome
        else:
            is_right = _ENDS.get(error_summary(entry.outcome)[0].rpartition(".")[2]) is child.status
        if not is_right:
            raise Violation("I20", f"workflow {key} records {entry.outcome} of {child.id}, which is {child}")


def i21_a_child_stops_when_it_is_told(ledger: Ledger, batch: Batch, now: int) -> None:
    """The answer to a parent that cancels a child is true: the child is being cancelled, or it had ended."""
    for key, entry in ledger.entries(EntryKind.CANCEL_CHILD):
        child = _by_id(ledger, batch, entry.name)
        accepted = json.loads(entry.outcome)
        if child is None or not (child.cancel_requested if accepted else child.status.is_terminal):
            raise Violation("I21", f"workflow {key} cancelled {entry.name} and got {accepted}: {child}")


def i20_a_spawned_child_is_heard(ledger: Ledger, batch: Batch, now: int) -> None:
    """No parent waits for the end of a child that has ended: the end and the wake-up are one commit."""
    touched = {*batch.workflows_new, *batch.workflows_changed}
    puts = (wait for wait in batch.waits_put.values() if wait.asks is None and wait.guest is None)
    touched |= {int(wait.event_key) for wait in puts if wait.kind is EntryKind.RESULT}
    for key in touched:
        for parent, position in ledger.waiting.get(("", str(key)), ()):
            is_parked = ledger.lives[parent].record.status is WorkflowStatus.PARKED
            if ledger.lives[key].has_ended and not is_parked:
                raise Violation("I20", f"{ledger.lives[key].record.id} has ended, {parent} waits for it at {position}")


def i20_children_end_with_their_parent(ledger: Ledger, batch: Batch, now: int) -> None:
    """When a parent ends, its children are cancelled in the same commit, except those that are kept."""
    ended = {record.key for record in batch.workflows_changed.values() if record.status.is_terminal}
    ended |= {record.key for record in batch.workflows_new.values() if record.status.is_terminal}
    for (parent, _), key in ledger.children.items() if ended else ():
        child = ledger.lives[key].record
        is_tied = child.on_parent_close is not OnParentClose.KEEP and not child.status.is_terminal
        if not ledger.is_here(key):
            # L7: this commit must write the letter that ends it, behind everything sent to that shard before.
            written = [letter for letter in ledger.post.written if key_home(key, ledger.shards) == letter.to]
            is_tied = is_tied and ParentEnded not in {type(letter.message) for letter in written}
        if parent in ended and is_tied and not child.cancel_requested:
            raise Violation("I20", f"{child.id} outlives its parent {ledger.lives[parent].record.id}: {child}")


def is_told_to_stop(ledger: Ledger, batch: Batch, child: WorkflowRecord) -> bool:
    """Whether a commit may cancel a child that no client wanted to stop: its parent cancelled it, or has ended."""
    letters = (letter.message for letter in ledger.post.handled)
    if any(isinstance(message, CancelChild) and message.child_id == child.id for message in letters):
        return True
    if child.on_parent_close is not OnParentClose.KEEP or child.parent_key in batch.restarted:
        return True
    return any(entry.name == child.id for _, entry in ledger.entries(EntryKind.CANCEL_CHILD))
