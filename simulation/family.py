"""Invariants of spawned children: they start with their step, their end is heard, and they end with whom they must."""

from __future__ import annotations

import json
from collections.abc import Iterator

from durable.backends.base import Batch
from durable.engine.operations.messages import CancelChild, ParentEnded
from durable.model.error_codec import error_summary
from durable.model.homes import key_home
from durable.model.position import place
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, OnParentClose, WorkflowRecord, WorkflowStatus
from simulation.ledger import Ledger
from simulation.violation import Violation

_ENDS = {"ChildWorkflowFailed": WorkflowStatus.FAILED, "ChildWorkflowCancelled": WorkflowStatus.CANCELLED}


def _after(ledger: Ledger, batch: Batch, key: int) -> WorkflowRecord:
    """A workflow as it is after a commit that is not booked yet."""
    return batch.workflows_new.get(key) or batch.workflows_changed.get(key) or ledger.lives[key].record


def _by_id(ledger: Ledger, batch: Batch, id: str) -> WorkflowRecord | None:
    fresh = next((record for record in batch.workflows_new.values() if record.id == id), None)
    if fresh is None and id in ledger.ids:
        return _after(ledger, batch, ledger.ids[id])
    return fresh


def _entries(batch: Batch, kind: EntryKind) -> Iterator[tuple[int, HistoryEntry]]:
    return ((key, entry) for key, entry in batch.history if entry.kind is kind)


def i20_a_spawned_child_starts_with_its_step(ledger: Ledger, batch: Batch, now: int) -> None:
    """A child is spawned in the commit in which its parent has learnt so, at that place; and no other is."""
    spawned = {(one.parent_key, one.parent_place): one for one in batch.workflows_new.values() if one.on_parent_close}
    for key, entry in _entries(batch, EntryKind.SPAWN):
        if (elsewhere := _by_id(ledger, batch, json.loads(entry.outcome))) and not ledger.is_here(elsewhere.key):
            # It was started there before, and has said so.
            spawned[key, place(_after(ledger, batch, key).round, entry.position)] = elsewhere
        child = spawned.pop((key, place(_after(ledger, batch, key).round, entry.position)), None)
        if child is None or child.id != json.loads(entry.outcome):
            raise Violation("I20", f"workflow {key} has spawned {entry.outcome} at {entry.position}: {child}")
    for (parent, where), child in spawned.items():
        # The entry of a round that is over in the same commit is gone. A parent elsewhere learns of it by letter.
        if parent not in batch.restarted and ledger.is_here(child.parent_key or 0):
            raise Violation("I20", f"{child.id} is spawned at {where} of {parent}, which has not learnt of it")


def i20_a_result_is_how_the_child_ended(ledger: Ledger, batch: Batch, now: int) -> None:
    """What a parent learns of a child that it has spawned is how it ended."""
    for key, entry in _entries(batch, EntryKind.RESULT):
        child = _by_id(ledger, batch, entry.name)
        if child is not None and not ledger.is_here(child.key) and ledger.lives[child.key].was_reopened:
            # It had ended, and goes on since.
            continue
        if child is None or child.parent_key != key or not child.status.is_terminal:
            raise Violation("I20", f"workflow {key} learns {entry.outcome} of {entry.name}: {child}")
        if entry.status is EntryStatus.OK:
            is_right = child.status is WorkflowStatus.SUCCEEDED and child.result == entry.outcome
        else:
            is_right = _ENDS.get(error_summary(entry.outcome)[0].rpartition(".")[2]) is child.status
        if not is_right:
            raise Violation("I20", f"workflow {key} learns {entry.outcome} from {child.id}, which says {child}")


def i21_a_child_stops_when_it_is_told(ledger: Ledger, batch: Batch, now: int) -> None:
    """A parent that was told that its child is being cancelled was told the truth; so was one that came too late."""
    for key, entry in _entries(batch, EntryKind.CANCEL_CHILD):
        child = _by_id(ledger, batch, entry.name)
        accepted = json.loads(entry.outcome)
        if child is None or not (child.cancel_requested if accepted else child.status.is_terminal):
            raise Violation("I21", f"workflow {key} was told {accepted} of the end of {entry.name}: {child}")


def i20_a_spawned_child_is_heard(ledger: Ledger, batch: Batch, now: int) -> None:
    """Nobody waits for the end of a child that has ended: the end and the wake-up are one commit."""
    touched = {*batch.workflows_new, *batch.workflows_changed}
    puts = (wait for wait in batch.waits_put.values() if wait.asks is None and wait.guest is None)
    touched |= {int(wait.event_key) for wait in puts if wait.kind is EntryKind.RESULT}
    for key in touched:
        for parent, position in ledger.waiting.get(("", str(key)), ()):
            is_parked = ledger.lives[parent].record.status is WorkflowStatus.PARKED
            if ledger.lives[key].has_ended and not is_parked:
                raise Violation("I20", f"{ledger.lives[key].record.id} has ended, {parent} waits for it at {position}")


def i20_children_end_with_their_parent(ledger: Ledger, batch: Batch, now: int) -> None:
    """When a parent ends its children are cancelled in the same commit, but for those that are kept."""
    ended = {one.key for one in batch.workflows_changed.values() if one.status.is_terminal}
    ended |= {one.key for one in batch.workflows_new.values() if one.status.is_terminal}
    for (parent, _), key in ledger.children.items() if ended else ():
        child = ledger.lives[key].record
        is_tied = child.on_parent_close is not OnParentClose.KEEP and not child.status.is_terminal
        if not ledger.is_here(key):
            # L7: the letter that says so is on its way, behind all that was sent there before.
            written = [letter for letter in ledger.post.written if key_home(key, ledger.shards) == letter.to]
            is_tied = is_tied and ParentEnded not in {type(letter.message) for letter in written}
        if parent in ended and is_tied and not child.cancel_requested:
            raise Violation("I20", f"{child.id} goes on without {ledger.lives[parent].record.id}: {child}")


def is_told_to_stop(ledger: Ledger, batch: Batch, child: WorkflowRecord) -> bool:
    """Whether a commit may cancel a child of which nobody outside wanted it: its parent has, or is gone."""
    letters = (letter.message for letter in ledger.post.handled)
    if any(isinstance(message, CancelChild) and message.child_id == child.id for message in letters):
        return True
    if child.on_parent_close is not OnParentClose.KEEP or child.parent_key in batch.restarted:
        return True
    return any(entry.name == child.id for _, entry in _entries(batch, EntryKind.CANCEL_CHILD))
