"""Invariants of letters between shards: L1 to L9. Some are rules of commits, like those of `rules`; the others are
checked when nothing is left to happen.

L3 is part of I16, which counts a letter as a place in which an event may be. L4 is I20. For L6 and L7, I20 checks the
commit in which a child or a parent ends, and this file checks the result.
"""

from __future__ import annotations

from durable.backends.base import Batch, Inbox, LetterId
from durable.backends.memory import MemoryStore
from durable.engine.operations.messages import EventOffered
from durable.model.homes import event_home, key_home
from durable.model.records import DeliveryMode, EntryKind, EventWait, OnParentClose, WorkflowStatus
from simulation.kinds import read_payload
from simulation.ledger import Ledger, Life
from simulation.violation import Violation


def l1_a_letter_is_handled_once(ledger: Ledger, batch: Batch, now: int) -> None:
    """A commit only handles letters that are in the inbox, and sets none aside: all shards run the same version."""
    if ledger.post.unknown or batch.letters_set_aside:
        wrong = f"{ledger.post.unknown} are handled and not in the inbox, {batch.letters_set_aside} are set aside"
        raise Violation("L1", f"shard {ledger.shard}: letters {wrong}")


def l2_letters_are_handled_in_order(ledger: Ledger, batch: Batch, now: int) -> None:
    """Between two shards, no letter is handled before one that was written earlier."""
    inbox = ledger.post.inboxes[ledger.shard]
    last: dict[int, LetterId] = {}
    for letter in ledger.post.handled:
        last[letter.sender] = max(letter.id, last.get(letter.sender, letter.id))
    for id, letter in inbox.items():
        if id not in batch.letters_handled and letter.sender in last and id < last[letter.sender]:
            raise Violation("L2", f"shard {ledger.shard} handles {last[letter.sender]} before the earlier {letter}")


def l5_who_stands_in_line_is_not_passed_over(ledger: Ledger, batch: Batch, now: int) -> None:
    """No wait of another shard stays registered while an event that it may take is pending."""
    for wait in ledger.post.guests[ledger.shard].values():
        if wait.mode is not DeliveryMode.ALL or wait.kind is not EntryKind.EVENT or wait.guest is None:
            continue
        for event in ledger.mail.queues.get((wait.name, wait.event_key, None), {}).values():
            has_expired = event.expires_at is not None and event.expires_at <= now
            if not has_expired and (event.consume or event.serial > _seen(ledger, wait)):
                raise Violation("L5", f"{wait} is registered in shard {ledger.shard} while {event} is pending there")


def _seen(ledger: Ledger, wait: EventWait) -> int:
    """The last broadcast that a workflow took, before its wait was registered or since."""
    seen = ledger.mail.seen.get((wait.workflow_key, wait.name, wait.event_key), 0)
    return max(seen, wait.guest.cursor if wait.guest is not None else 0)


def l9_an_offer_is_what_the_wait_asks_for(ledger: Ledger, batch: Batch, now: int) -> None:
    """Who asks for events from now on, or since the workflow was created, is offered no older one by another shard."""
    for letter in ledger.post.handled:
        if not isinstance(letter.message, EventOffered):
            continue
        wait, event, _ = letter.message
        mark, mode = ledger.mail.marks[event.payload], read_payload(event.payload)[2].mode
        since = {DeliveryMode.AFTER_CREATE: ledger.post.created[wait.key], DeliveryMode.ALL: 0}
        if mark <= since.get(mode, ledger.post.registered[wait]):
            raise Violation("L9", f"workflow {wait.key} is offered {event} of commit {mark} at {wait.position}")


# --- when nothing is left to happen ---------------------------------------------------------------------------------


def check_letters(ledger: Ledger, stores: tuple[MemoryStore, ...]) -> None:
    """L8, L5, L6 and L7: every letter is handled, and everything that the letters were about is finished."""
    if undelivered := ledger.post.on_its_way():
        raise Violation("L8", f"nothing is left to happen, and letters are not handled: {undelivered[:3]}")
    for store in stores:
        if store.letterbox.read(store.shard.number, Inbox(limit=1)):
            raise Violation("L1", f"shard {store.shard.number} has a letter that no commit has written")
    for life in ledger.lives.values():
        _check_waits(ledger, life)
    for shard, guests in enumerate(ledger.post.guests):
        for wait in guests.values():
            _check_guest(ledger, shard, wait)
    for (parent, _), key in ledger.children.items():
        child = ledger.lives[key].record
        is_tied = child.on_parent_close is not OnParentClose.KEEP and not child.status.is_terminal
        if ledger.lives[parent].has_ended and is_tied and not child.cancel_requested:
            raise Violation("L7", f"{child.id} outlives its parent {ledger.lives[parent].record.id}: {child}")


def _check_waits(ledger: Ledger, life: Life) -> None:
    """L5 and L6: a wait for an event of another shard is registered there, unless its workflow is parked."""
    here = key_home(life.record.key, ledger.shards)
    for wait in life.waits.values():
        home = event_home(wait.name, wait.event_key, ledger.shards)
        is_parked = life.record.status is WorkflowStatus.PARKED
        if wait.kind is EntryKind.EVENT and home != here and not is_parked:
            guest = ledger.post.guests[home].get((life.record.key, wait.position))
            if wait.unregistered is not None or guest is None or guest.guest is None:
                raise Violation("L5", f"{life.record.id} waits for {wait}, and it is not registered there: {guest}")
            if guest.guest.serial != wait.serial:
                raise Violation("L5", f"{life.record.id} waits for {wait}, and another wait is registered: {guest}")
        if wait.answer is not None and not is_parked:
            raise Violation("L6", f"{life.record.id} has an answer and does not continue: {wait}")


def _check_guest(ledger: Ledger, shard: int, guest: EventWait) -> None:
    """L5: every registered wait of another shard is still open there."""
    life = ledger.lives[guest.workflow_key]
    wait = life.waits.get(guest.position)
    is_for_child = guest.kind is EntryKind.RESULT
    is_open = wait is not None and guest.guest is not None and wait.serial == guest.guest.serial
    # A parent that no longer waits for a child has cancelled it, and its wait is removed when the child ends.
    if not is_open and not (is_for_child and _is_ending(ledger, guest)):
        raise Violation("L5", f"{guest} is registered in shard {shard}, and {life.record.id} does not wait")


def _is_ending(ledger: Ledger, guest: EventWait) -> bool:
    return ledger.lives[int(guest.event_key)].record.cancel_requested
