"""Planted bugs: letters between shards that are lost, duplicated, late or out of order."""

from __future__ import annotations

from collections.abc import Sequence

from durable.backends.base import Inbox, StoredLetter
from durable.engine.decide import elsewhere, events_elsewhere, guests, letters
from durable.engine.decide.turn import Turn
from durable.engine.operations import ReadLetter
from durable.engine.operations.letters import read_message
from durable.engine.state.outbox import Outbox
from durable.model.records import EventWait, PendingEvent, WorkflowRecord
from tests.planted.planting import Planter, bug


def _lose(planter: Planter, name: str) -> None:
    write = Outbox.post

    def post(self: Outbox, shard: int, text: str) -> None:
        if f'"{name}"' not in text:
            write(self, shard, text)

    planter.replace(Outbox, post)


@bug("I20", "I29", "L5", "L6", seed=3)
def end_of_a_child_is_lost(planter: Planter) -> None:
    """A parent in another shard learns of the end of its child."""
    _lose(planter, "child_ended")


@bug("I29", seed=3)
def start_of_a_child_is_lost(planter: Planter) -> None:
    """A child in another shard is started."""
    _lose(planter, "start_child")


@bug("I16", seed=3)
def offer_is_lost(planter: Planter) -> None:
    """An event that leaves its home shard travels in a letter."""
    _lose(planter, "event_offered")


@bug("L5", seed=9)
def registration_is_lost(planter: Planter) -> None:
    """A wait for an event of another shard queues in that shard."""
    _lose(planter, "wait_registered")


@bug("I20", "L7", seed=6)
def end_of_a_parent_is_lost(planter: Planter) -> None:
    """Tied children in other shards end with their parent."""
    _lose(planter, "parent_ended")


@bug("I29", seed=3)
def answer_to_a_sender_is_lost(planter: Planter) -> None:
    """A body that sends an event to another shard continues when that shard accepts it."""
    _lose(planter, "send_answered")


@bug(seed=3)
def letter_is_applied_twice(planter: Planter) -> None:
    """A letter takes effect once."""
    once = letters.decide_read_letter

    def decide_read_letter(turn: Turn, op: ReadLetter) -> None:
        once(turn, op)
        turn.messages.send(read_message(op.letter.text))

    planter.replace(letters, decide_read_letter)


@bug(seed=3)
def letter_is_not_deleted(planter: Planter) -> None:
    """A letter is deleted in the commit that handles it."""

    def handled(self: Outbox, id: object) -> None:
        pass

    planter.replace(Outbox, handled)


@bug("I16", "I20", "I29", "L2", "L5", "L7", seed=4)
def letters_are_read_out_of_order(planter: Planter) -> None:
    """Letters between two shards are handled in the order in which they were written."""

    def read(self: Outbox, limit: int) -> Sequence[StoredLetter]:
        return self._backend.find(Inbox(limit=1_000))[::-1][:limit]

    planter.replace(Outbox, read)


@bug("I16", "I20", "L5", "L6", "L7", seed=3)
def letter_leaves_after_the_commit(planter: Planter) -> None:
    """A letter is in the commit of its cause: no crash comes between them."""
    late: dict[int, list[tuple[int, str]]] = {}
    write, fetch = Outbox.post, Outbox.read

    def post(self: Outbox, shard: int, text: str) -> None:
        late.setdefault(id(self), []).append((shard, text))

    def read(self: Outbox, limit: int) -> Sequence[StoredLetter]:
        # Reading is the first step towards the next commit.
        for shard, text in late.pop(id(self), ()):
            write(self, shard, text)
        return fetch(self, limit)

    planter.replace(Outbox, post)
    planter.replace(Outbox, read)


@bug("L5", seed=3)
def wait_elsewhere_is_not_withdrawn(planter: Planter) -> None:
    """A wait that is over leaves the queue in the other shard."""

    def withdraw(turn: Turn, row: EventWait) -> None:
        pass

    planter.replace(elsewhere, withdraw)


@bug("I16", "L5", seed=3)
def offered_event_stays_in_its_queue(planter: Planter) -> None:
    """An event that is offered to another shard leaves its queue, so it is in one place at a time."""
    offer = guests.hand_out

    def hand_out(turn: Turn, row: EventWait, event: PendingEvent) -> None:
        offer(turn, row, event)
        if event.consume:
            turn.state.post.put_event(event)

    planter.replace(guests, hand_out)


@bug("I16", seed=31)
def offer_that_is_too_late_is_dropped(planter: Planter) -> None:
    """An event that was offered to a finished wait comes back."""

    def _give_back(turn: Turn, event: PendingEvent) -> None:
        pass

    planter.replace(events_elsewhere, _give_back)


@bug("L5", seed=40)
def wait_is_not_registered_again(planter: Planter) -> None:
    """A wait that could not take what it was offered queues again."""
    register = guests.register_wait

    def register_wait(turn: Turn, record: WorkflowRecord, row: EventWait) -> None:
        # Only the first registration, which has no rank yet, gets through.
        if row.unregistered is not None and row.unregistered.rank is None:
            register(turn, record, row)

    planter.replace(guests, register_wait)


@bug("I20", "L7", seed=6)
def shards_of_tied_children_forgotten(planter: Planter) -> None:
    """A workflow knows the other shards in which it has tied children."""

    def tied(self: Outbox, key: int) -> list[int]:
        return []

    planter.replace(Outbox, tied)


@bug("L9", seed=3)
def guests_take_what_is_older(planter: Planter) -> None:
    """The mark tells which of two shards stored its row first."""

    def guest_fits(row: EventWait, event: PendingEvent) -> bool:
        assert row.guest is not None
        return event.consume or event.serial > row.guest.cursor

    planter.replace(guests, guest_fits)
