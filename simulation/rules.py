"""The invariants of commits, each a small function named after its number: what a commit may do, and what it leaves.

A rule gets the ledger, one commit and the wall clock, and raises a `Violation` if the commit breaks it. The rules in
`BEFORE` run before the commit is booked in the ledger, so they see the state that it changes. The rules in `AFTER` run
after it is booked. A new rule is a function and one line in one of these tables, here or in the file of its subject.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec

from durable.backends.base import Batch
from durable.model.error_codec import error_summary
from durable.model.homes import event_home, key_home
from durable.model.records import (
    DeliveryMode,
    EntryKind,
    EntryStatus,
    EventWait,
    PendingEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from simulation.burying import i16_a_letter_says_why, i16_an_event_is_in_one_place, i16_an_id_is_remembered
from simulation.codeless import i25_nobody_is_set_aside, i25_without_code_nobody_goes_on
from simulation.family import (
    i20_a_child_is_started_once,
    i20_a_parent_hears_of_its_child,
    i20_a_result_is_how_the_child_ended,
    i20_a_spawned_child_is_heard,
    i20_a_spawned_child_starts_with_its_step,
    i20_children_end_with_their_parent,
    i21_a_child_stops_when_it_is_told,
)
from simulation.kinds import read_payload
from simulation.ledger import NOTES, REGISTERED, Ledger, Life
from simulation.letter_rules import (
    l1_a_letter_is_handled_once,
    l2_letters_are_handled_in_order,
    l5_who_stands_in_line_is_not_passed_over,
    l9_an_offer_is_what_the_wait_asks_for,
)
from simulation.pausing import i12_an_answer_was_given, i19_a_pause_expires_in_its_time
from simulation.queueing import (
    i16_mail_finds_its_workflow,
    i17_who_waits_longest_is_served,
    i18_a_wait_keeps_its_place,
    i18_a_wait_sees_what_it_asks_for,
)
from simulation.retried import i35_a_retry_voids_the_last_failure, is_reopened, is_restarted
from simulation.rows import errors, fits, tag
from simulation.sending import i37_what_a_body_sends_is_there
from simulation.steps import program_of
from simulation.ticking import i23_a_schedule_has_its_timer, i23_a_tick_is_decided_once
from simulation.told import i32_progress_does_not_go_back, i32_progress_is_stored_with_its_step
from simulation.trimming import i33_a_round_is_recorded, i33_old_rounds_are_trimmed, i34_an_answer_stands
from simulation.undone import i31_nothing_stays_owed, i31_undone_once_and_in_reverse
from simulation.violation import Violation

Rule = Callable[[Ledger, Batch, int], None]


def changes(ledger: Ledger, batch: Batch) -> Iterator[tuple[Life, WorkflowRecord]]:
    """Every stored workflow that a commit changes: its life before the commit, and its record after it."""
    for key, record in batch.workflows_changed.items():
        yield ledger.lives[key], record


def after(ledger: Ledger, batch: Batch, key: int) -> WorkflowRecord:
    """A workflow's record after a commit that is not booked yet."""
    return batch.workflows_new.get(key) or batch.workflows_changed.get(key) or ledger.lives[key].record


# --- before a commit is booked --------------------------------------------------------------------------------------


def i02_an_id_is_started_once(ledger: Ledger, batch: Batch, now: int) -> None:
    """No second workflow under one id."""
    for record in batch.workflows_new.values():
        if record.id in ledger.ids:
            raise Violation("I2", f"{record.id} is started a second time")


def i03_history_only_grows(ledger: Ledger, batch: Batch, now: int) -> None:
    """Recorded entries stay. Only a new round clears them, and it is recorded too."""
    for life, record in changes(ledger, batch):
        before, is_new_round = life.record.round, record.key in batch.restarted
        if record.round < before or (record.round > before) != is_new_round:
            raise Violation("I3", f"{record.id}: round {before} to {record.round}, cleared: {is_new_round}")
    for key in batch.restarted:
        if key not in batch.workflows_changed and key not in batch.workflows_new:
            raise Violation("I3", f"the history of workflow {key} is cleared, and nothing says why")


def i04_history_has_no_hole(ledger: Ledger, batch: Batch, now: int) -> None:
    """Sequence numbers are 1 to n."""
    seqs: dict[int, int] = {}
    for key, entry in batch.history:
        last = seqs.get(key)
        if last is None:
            life = ledger.lives.get(key)
            last = 0 if life is None or key in batch.restarted else life.seq
        if entry.seq != last + 1:
            raise Violation("I4", f"workflow {key}: entry {entry.seq} follows entry {last}")
        seqs[key] = entry.seq


def i05_the_end_is_the_end(ledger: Ledger, batch: Batch, now: int) -> None:
    """Nothing is written about a workflow that has ended, unless an operator retries it."""
    keys = [*batch.workflows_changed, *batch.restarted, *(key for key, _ in batch.history)]
    keys += [key for (key, _), wait in batch.waits_put.items() if wait.guest is None]
    for key in keys:
        life = ledger.lives.get(key)
        if life is not None and life.has_ended and not is_reopened(ledger, batch, key):
            raise Violation("I5", f"{life.record.id} has ended and is changed")


def i08_a_position_is_done_once(ledger: Ledger, batch: Batch, now: int) -> None:
    """One outcome for each position of a round."""
    here: set[tuple[int, str]] = set()
    retried: set[tuple[int, str]] = set()
    for key, entry in batch.history:
        if entry.kind is EntryKind.RETRIED:
            here.discard((key, entry.position))
            retried.add((key, entry.position))
            continue
        life = ledger.lives.get(key)
        was_done = life is not None and key not in batch.restarted and entry.position in life.done
        was_done = was_done and (key, entry.position) not in retried
        if was_done or (key, entry.position) in here:
            raise Violation("I8", f"workflow {key}: position {entry.position} has an outcome already")
        if entry.status is not EntryStatus.RETRY and entry.kind not in NOTES:
            here.add((key, entry.position))


def i12_what_is_recorded_was_returned(ledger: Ledger, batch: Batch, now: int) -> None:
    """The recorded outcome of an activity is, byte for byte, what that attempt answered."""
    here: dict[tuple[int, str], int] = {}
    retried: set[tuple[int, str]] = set()
    for key, entry in batch.history:
        if entry.kind is EntryKind.RETRIED:
            here.pop((key, entry.position), None)
            retried.add((key, entry.position))
        if entry.kind is not EntryKind.ACTIVITY:
            continue
        life = ledger.lives.get(key)
        before = 0
        if life is not None and key not in batch.restarted and (key, entry.position) not in retried:
            before = life.failed.get(entry.position, (0, 0))[0]
        failed = before + here.get((key, entry.position), 0)
        if entry.status is EntryStatus.RETRY:
            here[key, entry.position] = here.get((key, entry.position), 0) + 1
        attempt = (key, after(ledger, batch, key).round, entry.position, failed + 1)
        if entry.outcome not in ledger.answers.get(attempt, ()):
            raise Violation("I12", f"attempt {attempt} is recorded as {entry.outcome}, which it did not answer")


def i19_time_does_not_run_back(ledger: Ledger, batch: Batch, now: int) -> None:
    """The entries of a workflow are in the order of its time, and none is later than the clock allows."""
    times: dict[int, int] = {}
    for key, entry in batch.history:
        if entry.status is EntryStatus.RETRY or entry.kind is EntryKind.PATCH:
            continue
        life = ledger.lives.get(key)
        is_new = life is None or key in batch.restarted
        last = times.get(key, 0 if life is None or is_new else life.at)
        if entry.kind is EntryKind.RETRIED:
            # The time of a failure that the retry made void is not recorded any more.
            last = min(last, entry.at_us)
        elif entry.kind is not EntryKind.CANCEL:
            latest = max(now, last, after(ledger, batch, key).start_at, 0 if life is None or is_new else life.latest)
            if not last <= entry.at_us <= latest:
                raise Violation("I19", f"workflow {key}: entry {entry.seq} at {entry.at_us}, after {last}, now {now}")
        times[key] = max(last, entry.at_us)


def i21_parked_waits_for_its_cleanup(ledger: Ledger, batch: Batch, now: int) -> None:
    """A cancelled workflow that was parked ends only after its body got the `Cancelled`, unless it was terminated."""
    for key, record in batch.workflows_changed.items():
        is_ended = record.status is WorkflowStatus.CANCELLED and record.id not in ledger.axed
        if not is_ended or ledger.lives[key].record.status is not WorkflowStatus.PARKED:
            continue
        if not any(owner == key for owner, _ in ledger.entries(EntryKind.CANCEL)):
            raise Violation("I21", f"{record.id} was parked and ended cancelled without its cleanup")


def i21_cancelled_stays_cancelled(ledger: Ledger, batch: Batch, now: int) -> None:
    """A requested cancellation is never taken back."""
    for life, record in changes(ledger, batch):
        is_taken_back = life.record.cancel_requested and not record.cancel_requested
        if is_taken_back and not is_restarted(ledger, batch, record.key):
            raise Violation("I21", f"{record.id}: the cancellation is forgotten")
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        if record.status.is_terminal and record.cancel_requested != (record.status is WorkflowStatus.CANCELLED):
            raise Violation("I21", f"{record.id} ends {record.status.value}, asked to stop: {record.cancel_requested}")


# --- after a commit is booked ---------------------------------------------------------------------------------------


def i05_the_result_is_right(ledger: Ledger, batch: Batch, now: int) -> None:
    """A workflow ends with a result or an error that its program allows."""
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        if record.status is WorkflowStatus.SUCCEEDED:
            if not fits(program_of(record.input), msgspec.json.decode(record.result or "null")):
                raise Violation("I5", f"{record.id} ends with a result that its program cannot have: {record.result}")
        elif record.status is WorkflowStatus.FAILED:
            error = tag(*error_summary(record.error or ""))
            if error not in errors(program_of(record.input)):
                raise Violation("I5", f"{record.id} fails with {error}, which its program cannot raise")


def i07_an_ended_workflow_leaves_nothing(ledger: Ledger, batch: Batch, now: int) -> None:
    """A workflow that has ended has no wait, no timer and no mail; one that has not ended has no result."""
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        if record.status.is_terminal:
            life = ledger.lives[record.key]
            mail = [queue for queue in ledger.mail.queues if queue[2] == record.key and ledger.mail.queues[queue]]
            if life.waits or mail or record.wake_at is not None or record.finished_at is None:
                raise Violation("I7", f"{record.id} has ended and leaves {life.waits} {mail} {record.wake_at}")
        elif record.finished_at is not None or record.result is not None or record.error is not None:
            raise Violation("I7", f"{record.id} is {record.status.value} and has a result")


def i17_first_sent_first_taken(ledger: Ledger, batch: Batch, now: int) -> None:
    """No event is passed over by one that was sent later; the mailbox comes before the queue."""
    mail = ledger.mail
    for taken in mail.taken:
        name, key, kind = read_payload(taken.payload)
        if kind.is_choosy or not kind.consume or (ledger.shards > 1 and not kind.is_targeted):
            # An event that travels between shards may be overtaken on the way.
            continue
        place = (name, key)
        target = taken.event.target if taken.event is not None else None
        serial = taken.event.serial if taken.event is not None else mail.serial_before + 1
        older = list(mail.queues.get((*place, taken.key), ()))
        if target is None and not kind.is_targeted:
            older = [earlier for earlier in older if earlier <= mail.serial_before]
            older += [earlier for earlier in mail.queues.get((*place, None), ()) if earlier < serial]
        else:
            older = [earlier for earlier in older if earlier < serial]
        if older:
            raise Violation("I17", f"workflow {taken.key} took {taken.payload} ({serial}) before {older}")


def i18_nobody_waits_for_what_is_there(ledger: Ledger, batch: Batch, now: int) -> None:
    """No wait stays registered while an event that it may take is pending."""
    waits = {place: wait for place, wait in batch.waits_put.items() if wait.guest is None}
    for event in batch.events_put.values():
        waits.update(ledger.waiting.get((event.name, event.event_key), {}))
    for (key, position), wait in waits.items():
        life = ledger.lives[key]
        is_parked = life.record.status is WorkflowStatus.PARKED or life.is_resuming
        if is_parked or position not in life.waits:
            continue
        is_home = event_home(wait.name, wait.event_key, ledger.shards) == key_home(key, ledger.shards)
        for target in (key, None) if is_home else (key,):
            for event in ledger.mail.queues.get((wait.name, wait.event_key, target), {}).values():
                if _may_take(ledger, life.record, wait, event, now):
                    raise Violation("I18", f"{life.record.id} waits at {position} while {event} is pending")


def _may_take(ledger: Ledger, record: WorkflowRecord, wait: EventWait, event: PendingEvent, now: int) -> bool:
    """Whether a wait may take a pending event: not expired, recent enough for its mode, not taken before."""
    if event.expires_at is not None and event.expires_at <= now:
        return False
    if wait.mode is not DeliveryMode.ALL:
        return event.serial > (record.key if wait.mode is DeliveryMode.AFTER_CREATE else wait.serial)
    seen = ledger.mail.seen.get((record.key, event.name, event.event_key), 0)
    return event.consume or event.serial > seen


def i18_a_resolved_wait_is_gone(ledger: Ledger, batch: Batch, now: int) -> None:
    """A wait that has its outcome is not registered any more."""
    for key, entry in itertools.chain.from_iterable(map(ledger.entries, REGISTERED)):
        life = ledger.lives[key]
        if entry.position in life.waits and entry.position in life.done:
            raise Violation("I18", f"{life.record.id} got its {entry.kind.value} at {entry.position} and still waits")


def i18_a_new_round_has_no_waits(ledger: Ledger, batch: Batch, now: int) -> None:
    """The waits of a round end with the round."""
    for key in batch.restarted:
        old = [position for position in ledger.lives[key].waits if (key, position) not in batch.waits_put]
        if old:
            raise Violation("I18", f"workflow {key} begins a round and still waits at {old}")


BEFORE: tuple[Rule, ...] = (
    i02_an_id_is_started_once,
    i03_history_only_grows,
    i04_history_has_no_hole,
    i05_the_end_is_the_end,
    i08_a_position_is_done_once,
    i12_what_is_recorded_was_returned,
    i12_an_answer_was_given,
    i19_time_does_not_run_back,
    i19_a_pause_expires_in_its_time,
    i20_a_child_is_started_once,
    i21_cancelled_stays_cancelled,
    i21_parked_waits_for_its_cleanup,
    i25_nobody_is_set_aside,
    i25_without_code_nobody_goes_on,
    i16_mail_finds_its_workflow,
    i17_who_waits_longest_is_served,
    i18_a_wait_keeps_its_place,
    i18_a_wait_sees_what_it_asks_for,
    i20_a_spawned_child_starts_with_its_step,
    i20_a_result_is_how_the_child_ended,
    i21_a_child_stops_when_it_is_told,
    i32_progress_does_not_go_back,
    i23_a_tick_is_decided_once,
    l1_a_letter_is_handled_once,
    l2_letters_are_handled_in_order,
    l9_an_offer_is_what_the_wait_asks_for,
)
AFTER: tuple[Rule, ...] = (
    i05_the_result_is_right,
    i07_an_ended_workflow_leaves_nothing,
    i16_an_event_is_in_one_place,
    i16_a_letter_says_why,
    i16_an_id_is_remembered,
    i17_first_sent_first_taken,
    i18_nobody_waits_for_what_is_there,
    i18_a_resolved_wait_is_gone,
    i18_a_new_round_has_no_waits,
    i20_a_parent_hears_of_its_child,
    i23_a_schedule_has_its_timer,
    i31_undone_once_and_in_reverse,
    i31_nothing_stays_owed,
    i20_a_spawned_child_is_heard,
    i20_children_end_with_their_parent,
    i32_progress_is_stored_with_its_step,
    i33_a_round_is_recorded,
    i33_old_rounds_are_trimmed,
    i34_an_answer_stands,
    i35_a_retry_voids_the_last_failure,
    i37_what_a_body_sends_is_there,
    l5_who_stands_in_line_is_not_passed_over,
)
