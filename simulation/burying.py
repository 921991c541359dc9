"""Invariants of events that no workflow takes: each is in one place, and a dead letter gives the true reason.

Rules like those of `rules`, run after the commit is booked.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.engine.decide.requests import KEPT_FOR
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from simulation.kinds import is_unreadable, read_payload
from simulation.ledger import Ledger
from simulation.mail import Places
from simulation.violation import Violation


def i16_an_event_is_in_one_place(ledger: Ledger, batch: Batch, now: int) -> None:
    """An accepted event is in exactly one place: pending, taken, a dead letter, in a letter, or gone for a reason."""
    mail = ledger.mail
    for payload in mail.touched:
        places = mail.places.get(payload)
        if places is None or not _is_right(payload, places):
            raise Violation("I16", f"event {payload} is in {places}")
        if places.is_broadcast and len(set(places.taken)) != len(places.taken):
            raise Violation("I16", f"broadcast {payload} was taken twice by one workflow: {places.taken}")
    for taken in mail.taken:
        if taken.event is not None and taken.event.expires_at is not None and taken.event.expires_at <= now:
            raise Violation("I16", f"event {taken.payload} was delivered after it had expired")
    if mail.altered:
        raise Violation("I16", f"an event was moved, and expires at another time now: {mail.altered[0]}")


def _is_right(payload: str, places: Places) -> bool:
    """Whether an event with these places is in one place. An unreadable one must never be taken."""
    if not is_unreadable(payload):
        return places.count == 1
    _, _, kind = read_payload(payload)
    # A broadcast stays for workflows that can read it, beside its dead letter, which an operator may send again.
    return not places.taken and (places.count == 1 if kind.consume else places.count >= 1)


def i16_a_letter_says_why(ledger: Ledger, batch: Batch, now: int) -> None:
    """A dead letter is the event that was sent, and its reason is true."""
    for letter in batch.letters_put.values():
        name, event_key, _ = read_payload(letter.payload_json)
        if (letter.name, letter.event_key) != (name, event_key) or not _is_true(ledger, letter, now):
            raise Violation("I16", f"a dead letter gives a reason that is not true: {letter}")


def _is_true(ledger: Ledger, letter: DeadLetter, now: int) -> bool:
    """Whether the reason of a dead letter is true."""
    life = ledger.life(letter.workflow_id)
    if letter.reason is DeadLetterReason.UNREADABLE:
        return life is not None and is_unreadable(letter.payload_json)
    if letter.reason is DeadLetterReason.WORKFLOW_ENDED:
        return life is not None and (life.has_ended or life.was_reopened)
    event = ledger.mail.dropped.get(letter.id)
    if event is None or (not event.consume and (event.taken or ledger.mail.places[event.payload].taken)):
        # A broadcast that a workflow took has done its work, and is dropped without a letter.
        return False
    return ledger.mail.is_old(event, now)


def i16_an_id_is_remembered(ledger: Ledger, batch: Batch, now: int) -> None:
    """The id of an event is remembered for as long as events are kept, so that it is not accepted twice."""
    for event_id in batch.sent_dropped:
        sent_at = ledger.mail.sent.get(event_id, now)
        if sent_at + ledger.mail.retention > now:
            raise Violation("I16", f"{event_id} was sent at {sent_at} and is forgotten at {now}")
    for request_id in batch.answers_dropped:
        answered_at = ledger.mail.answered.get(request_id, 0)
        if answered_at + KEPT_FOR > now:
            raise Violation("I16", f"the answer to {request_id} of {answered_at} is forgotten at {now}")
