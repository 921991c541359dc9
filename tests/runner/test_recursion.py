"""A body that hits Python's recursion limit. The depth differs between processes, so the failure is recorded."""

from __future__ import annotations

import pytest

from durable.errors import ActivityFailed, HelpersTooDeep, TooDeepHere
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import settle
from durable.runner.definitions import Durable, workflow
from durable.runner.ops import Raised
from tests.runner.builders import a_session, activity_error, activity_ok, charge, error_of, notify, opened, seconds

PAID = activity_ok(1, "0", "charge", 1)


def note(seq: int, position: str) -> HistoryEntry:
    """The record of a failure by depth."""
    return HistoryEntry(seq, "", EntryKind.PATCH, f"too deep at {position}", EntryStatus.OK, "true", seconds(seq))


def endless() -> int:
    """Calls itself without end."""
    return endless()


@workflow(name="runner.endless")
def owing() -> Durable[int]:
    """Owes an undo, and fails by its depth."""
    yield from charge(1).undo(lambda paid: notify(str(paid)))
    return endless()


def test_failure_by_depth_is_recorded() -> None:
    """On the first run the body fails, its undos run, and the failure is recorded."""
    session = a_session(owing)
    session.start()
    assert opened(session.feed(PAID)) == ["u.0.0"]
    assert session.answers == (("too deep at 1", True),)


def test_recorded_failure_happens_again() -> None:
    """On a replay a recorded failure happens again, and the undo that it began continues."""
    session = a_session(owing)
    session.replay([PAID, note(2, "1")])
    assert [str(wait) for wait in session.waits.values()] == ["activity notify"]
    assert session.answers == ()
    assert isinstance(error_of(session.feed(activity_ok(3, "u.0.0", "notify", None))), RecursionError)


def test_failure_that_is_not_recorded_is_that_of_this_process() -> None:
    """On a replay an unrecorded failure concerns only this process: it raises `TooDeepHere`, and nothing is undone."""
    with pytest.raises(TooDeepHere, match="too deep for this process") as caught:
        a_session(owing).replay([PAID])
    assert isinstance(caught.value.__cause__, RecursionError)


def test_failure_of_a_branch_is_recorded() -> None:
    """A failure in a branch that the workflow catches is recorded too, once."""

    def branch() -> Durable[int]:
        yield from charge(1)
        return endless()

    @workflow(name="w")
    def body() -> Durable[bool]:
        (outcome,) = yield from settle(branch())
        yield from notify()
        return isinstance(outcome, Raised)

    entry = activity_ok(1, "0.0.0", "charge", 1)
    session = a_session(body)
    session.start()
    session.feed(entry)
    assert session.answers == (("too deep at 0.0.1", True),)
    a_session(body).replay([entry, note(2, "0.0.1")])
    with pytest.raises(TooDeepHere):
        a_session(body).replay([entry])


def test_activity_that_went_too_deep_is_a_plain_failure() -> None:
    """An activity's RecursionError is recorded with the activity. The body may let it pass, also on a replay."""

    @workflow(name="w")
    def body() -> Durable[int]:
        return (yield from charge(1))

    session = a_session(body)
    ended = session.replay([activity_error(1, "0", "charge", RecursionError("deep"))])
    assert not isinstance(error_of(ended), HelpersTooDeep | ActivityFailed)
    assert session.answers == ()
