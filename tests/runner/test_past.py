"""Reading a history ahead: repairs, retries and forks, as a session sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable.errors import CodecError, TimedOut
from durable.model.clock import LATEST, SECOND
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.changes import removed
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, workflow
from durable.runner.determinism import now, uuid
from durable.runner.ops import sleep, sleep_until
from durable.runner.past import Forked, Past, Repair, Retried, effective
from durable.runner.pauses import pause
from tests.runner.builders import (
    NEW_YEAR,
    Declined,
    a_session,
    activity_error,
    activity_ok,
    activity_retry,
    charge,
    error_of,
    event_came,
    hours,
    run,
    seconds,
    timer_fired,
    value_of,
)


def note(seq: int, kind: EntryKind, text: str, position: str = "") -> HistoryEntry:
    """An operator's note, `seq` seconds after the start."""
    return HistoryEntry(seq, position, kind, kind.value, EntryStatus.OK, text, seconds(seq))


def repaired(seq: int, entry: int, value: Any, reason: str = "why") -> HistoryEntry:
    """The operator replaced a result."""
    return note(seq, EntryKind.REPAIRED, Repair.text(entry, json.dumps(value), reason))


def retried(seq: int, *void: int, lain: float = 0, position: str = "") -> HistoryEntry:
    """The operator retried the workflow after it had been FAILED for `lain` seconds."""
    return note(seq, EntryKind.RETRIED, Retried([*void], round(lain * SECOND)).text(), position)


def forked(seq: int, source: str, entry: int, position: str = "") -> HistoryEntry:
    """The entries before this one were copied from another workflow."""
    return note(seq, EntryKind.FORKED, Forked(source, entry).text(), position)


FAILED = activity_error(1, "0", "charge", Declined("no"))


# --- effective entries ------------------------------------------------------------------------------------------------


def test_history_without_notes() -> None:
    """A history without notes is fed as it is, without a copy."""
    entries = [activity_ok(1, "0", "charge", 1)]
    past = Past(entries)
    assert past.entries is entries
    assert (past.patches, past.loops, past.forks, past.mends) == ({}, {}, [], 0)
    assert list(Past(iter(entries)).entries) == entries
    assert not Past().entries


def test_repaired_result_is_another() -> None:
    """The last repair counts, an error becomes a result, and the repaired entry is fed only once."""
    entries = [FAILED, repaired(2, 1, 5), repaired(3, 1, 6), event_came(4, "1", "x")]
    entries_left = effective(entries)
    assert [(entry.seq, entry.status, entry.outcome) for entry in entries_left] == [
        (1, EntryStatus.OK, "6"),
        (4, EntryStatus.OK, '"x"'),
    ]
    assert entries_left[0]._replace(status=FAILED.status, outcome=FAILED.outcome) == FAILED
    assert Past(entries).mends == 2


def test_void_entries_are_left_out() -> None:
    """A retry voids the error and its attempts, and is itself fed at its place."""
    entries = [activity_retry(1, "0", "charge", None), activity_error(2, "0", "charge", Declined("no"))]
    past = Past([*entries, retried(3, 1, 2), activity_ok(4, "0", "charge", 5)])
    assert [(entry.seq, entry.kind.value) for entry in past.entries] == [(3, "retried"), (4, "activity")]
    assert past.mends == 1


@pytest.mark.parametrize("kind", [EntryKind.REPAIRED, EntryKind.RETRIED, EntryKind.FORKED, EntryKind.LOOP])
@pytest.mark.parametrize("text", ["", "{", "null", '{"entry": "one"}', "[" * 5000])
def test_note_that_cannot_be_read(kind: EntryKind, text: str) -> None:
    """The error names the entry."""
    with pytest.raises(CodecError) as caught:
        Past([note(7, kind, text, "0.1.0")])
    assert f"entry 7 ({kind.value})" in str(caught.value)


def test_last_entry_of_a_position() -> None:
    """The last entry at a position or below it, without notes of operators."""
    past = Past([timer_fired(1, "0.1.0"), timer_fired(2, "0.0"), retried(3, position="0.1.0"), forked(4, "s", 2, "1")])
    assert [past.last_at(place) for place in ("0", "0.1", "0.1.0", "0.0", "1", "")] == [2, 1, 1, 2, None, None]


def test_removed_step_that_was_retried() -> None:
    """A removed step that was retried and has no result yet does not wait."""

    @workflow(name="runner.past.removed")
    def body() -> Durable[str]:
        yield from removed("charge")
        yield from sleep(5)
        return "done"

    session = a_session(body)
    session.replay([FAILED, retried(2, 1, position="0")])
    assert [*session.waits] == ["1"]


# --- time -------------------------------------------------------------------------------------------------------------


@workflow(name="runner.past.limited")
def limited() -> Durable[int]:
    """A step with a limit of a minute."""
    return (yield from charge(1).within(60))


def test_retry_moves_limits() -> None:
    """Each retry moves the limit by the time spent FAILED."""
    failed = [activity_error(seq, "0.0.0", "charge", Declined("no")) for seq in (1, 3)]
    history = [failed[0], retried(2, 1, lain=100, position="0.0.0"), failed[1]]
    session = a_session(limited)
    session.replay([*history, retried(4, 3, lain=1000, position="0.0.0")])
    assert session.wake_at() == seconds(1160)
    assert session.waits["0.0.0"].opened_at == session.now == seconds(4)
    assert isinstance(error_of(session.feed(timer_fired(1160, "0.1.0"))), TimedOut)


def test_limit_ends_with_the_calendar() -> None:
    """However long the workflow was FAILED, the limit is an instant that a datetime can hold."""
    session = a_session(limited)
    session.replay([retried(1, lain=10**12)])
    assert session.wake_at() == LATEST


@workflow(name="runner.past.times")
def times() -> Durable[Any]:
    """Everything that has a deadline, and a step that may be retried."""
    ops = (sleep(10), sleep_until(NEW_YEAR + hours(1)), pause(returns=int, expires_after=20), charge(1).within(30))
    return (yield from gather(*ops, charge(2)))


def deadlines(*entries: HistoryEntry) -> list[float]:
    """The deadlines of `times` in seconds after the start: two sleeps, a pause, a limit and an attempt."""
    session = a_session(times)
    session.replay(entries)
    places = ("0.0.0", "0.1.0", "0.2.0", "0.3.0.1.0", "0.4.0")
    dues = [wait.due if (wait := session.waits.get(place)) else None for place in places]
    return [-1 if due is None else (due - seconds(0)) / SECOND for due in dues]


def test_which_deadlines_a_retry_moves() -> None:
    """Limits and pauses move; sleeps and attempts do not."""
    attempt = activity_retry(1, "0.4.0", "charge", seconds(40))
    assert deadlines(attempt) == [10, 3600, 20, 30, 40]
    assert deadlines(attempt, retried(2, lain=100)) == [10, 3600, 120, 130, 40]
    expired = HistoryEntry(1, "0.2.0", EntryKind.PAUSE, "pause", EntryStatus.ERROR, "{}", seconds(1))
    # The pause that had expired is asked again, from the time of the retry.
    assert deadlines(expired, retried(50, 1, lain=49, position="0.2.0")) == [10, 3600, 70, 79, -1]


def test_which_deadlines_a_fork_moves() -> None:
    """Waits that the last copied step opened start at the fork; earlier limits keep counting."""
    assert deadlines(forked(50, "s", 0)) == [60, 3600, 70, 80, -1]
    attempt = activity_retry(1, "0.4.0", "charge", seconds(40))
    assert deadlines(attempt, forked(50, "s", 1)) == [60, 3600, 70, 80, 40]


def test_fork_behind_a_step() -> None:
    """A sleep that began before the last copied step ends when it would have ended in the source."""

    @workflow(name="runner.past.behind")
    def body() -> Durable[Any]:
        return (yield from gather(sleep(100), _then_sleep()))

    session = a_session(body)
    session.replay([activity_ok(7, "0.1.0", "charge", 1), forked(50, "s", 7)])
    assert {place: wait.deadline for place, wait in session.waits.items()} == {
        "0.0.0": seconds(100),
        "0.1.1": seconds(60),
    }
    assert [wait.opened_at for wait in session.waits.values()] == [seconds(0), seconds(50)]


def _then_sleep() -> Durable[Any]:
    yield from charge(1)
    return (yield from sleep(10))


def test_notes_of_a_workflow_that_has_ended() -> None:
    """With fixed code a retried workflow may end before the note is fed; that end is kept."""

    @workflow(name="runner.past.shorter")
    def shorter() -> Durable[int]:
        return (yield from charge(1))

    assert value_of(run(shorter, activity_ok(1, "0", "charge", 5), retried(2))) == 5


# --- draws ------------------------------------------------------------------------------------------------------------


@workflow(name="runner.past.draws")
def draws() -> Durable[list[Any]]:
    """Draws in every step."""
    drawn_so_far: list[Any] = [uuid()]
    for amount in range(3):
        yield from charge(amount)
        drawn_so_far.append(uuid())
    return [*drawn_so_far, now()]


def drawn(id: str, *notes: HistoryEntry) -> list[Any]:
    """The draws of a workflow with this id and these notes in its history."""
    steps = [activity_ok(10 * (number + 1), str(number), "charge", 1) for number in range(3)]
    session = a_session(draws, id=id)
    values: list[Any] = value_of(session.replay(sorted([*steps, *notes])))
    return values[:4]


def test_draws_of_a_fork() -> None:
    """Draws up to the last copied entry use the id of the source, later ones the fork's own."""
    source, own = drawn("source"), drawn("fork")
    assert not {*source} & {*own}
    assert drawn("fork", forked(1, "source", 0)) == own
    assert drawn("fork", forked(11, "source", 10)) == [source[0], *own[1:]]
    assert drawn("fork", forked(21, "source", 20)) == [*source[:2], *own[2:]]


def test_draws_of_a_fork_of_a_fork() -> None:
    """The draws of each part use the id of the workflow that ran it."""
    first, second, own = drawn("first"), drawn("second"), drawn("own")
    values = drawn("own", forked(11, "first", 10), forked(21, "second", 20))
    assert values == [first[0], second[1], *own[2:]]
    assert drawn("own", forked(11, "first", 10), forked(12, "second", 10)) == [first[0], *own[1:]]
