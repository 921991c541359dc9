"""Feeding entries: the body gets the recorded value, and an entry that does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from durable.errors import ActivityFailed, ChildWorkflowFailed, CodecError, HistoryDiverged
from durable.model.error_codec import pack_error
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import now
from durable.runner.ops import sleep
from durable.runner.results import Suspended
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import (
    Declined,
    Opaque,
    a_session,
    activity_error,
    activity_ok,
    activity_retry,
    approval,
    charge,
    child_ok,
    error_of,
    event_came,
    instant,
    notify,
    opened,
    picture,
    run,
    seconds,
    ship,
    suspended,
    timer_fired,
    unloaded,
    value_of,
    with_outcome,
    withdrawn,
)


@attrs.frozen
class Order:
    """A result that is more than JSON."""

    number: int


@workflow(name="runner.entries.child")
def child(order: Order, note: str = "-") -> Durable[Order]:
    """A child with its own result type."""
    yield from charge(order.number)
    return order


@workflow(name="runner.entries.generator")
def answers() -> Durable[Any]:
    """One operation of each kind, as a generator."""
    [nothing] = yield from gather(notify("a"))
    text = yield from ship(["a"])
    payload = yield from approval.wait()
    order = yield from child(Order(1))
    try:
        yield from charge(1)
    except Declined as error:
        return nothing, text, payload, order, error.args
    return "no failure"


@workflow(name="runner.entries.coroutine")
async def async_answers() -> Any:
    """The same as a coroutine."""
    [nothing] = await gather(notify("a"))
    text = await ship(["a"])
    payload = await approval.wait()
    order = await child(Order(1))
    try:
        await charge(1)
    except Declined as error:
        return nothing, text, payload, order, error.args
    return "no failure"


FLAVOURS = pytest.mark.parametrize("definition", [answers, async_answers], ids=["generator", "async def"])
HISTORY = [
    activity_ok(1, "0.0.0", "notify", None),
    activity_ok(2, "1", "ship", None),
    event_came(3, "2", None),
    child_ok(4, "3", child.name, {"number": 5}),
    activity_error(5, "4", "charge", Declined("no funds", 7)),
]


@FLAVOURS
def test_entries_replay_as_recorded(definition: WorkflowDef[[], Any]) -> None:
    """None results, None payloads, typed results and caught failures replay as recorded."""
    expected = (None, None, None, Order(5), ("no funds", 7))
    for _ in range(2):
        assert value_of(run(definition, *HISTORY)) == expected


@FLAVOURS
def test_entries_open_one_wait_after_the_other(definition: WorkflowDef[[], Any]) -> None:
    """Each result names the waits opened since the last one, with kind and name."""
    session = a_session(definition)
    seen = [suspended(session.start()).opened[0]]
    seen += [suspended(session.feed(entry)).opened[0] for entry in HISTORY[:-1]]
    assert [str(wait) for wait in seen] == [
        "activity notify", "activity ship", "event approval", f"child {child.name}", "activity charge",
    ]  # fmt: skip
    assert seen[3].input == '{"order":{"number":1},"note":"-"}'


def test_feed_takes_a_value_that_was_read_already() -> None:
    """If the caller has the decoded value, the entry's text is not decoded again."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from charge(1))

    session = a_session(body)
    session.start()
    value = object()
    assert value_of(session.feed(activity_ok(1, "0", "charge", "unread"), value)) is value


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Declined("no"), Declined, "no"),
        (KeyError("key"), KeyError, "'key'"),
        (Opaque(code=5), Opaque, "code 5"),
        (unloaded("gone"), ActivityFailed, f"{Declined.__module__}.unloaded.<locals>.Unloaded: gone"),
        (ChildWorkflowFailed("c", "E", "m"), ChildWorkflowFailed, "child workflow 'c' failed with E: m"),
    ],
    ids=lambda param: param.__name__ if isinstance(param, type) else "",
)
def test_failure_is_raised_as_its_class_or_as_activity_failed(
    error: Exception, kind: type[Exception], text: str
) -> None:
    """The body gets the original class if it is loaded, otherwise ActivityFailed with its name and message."""

    @workflow(name="w")
    def body() -> Durable[int]:
        return (yield from charge(1))

    raised = error_of(run(body, activity_error(1, "0", "charge", error)))
    assert type(raised) is kind
    assert str(raised) == text


def test_failure_in_a_group_is_caught_around_it() -> None:
    """A failure in a branch can be caught in the branch, or around the whole."""

    def careful() -> Durable[str]:
        try:
            yield from charge(1)
        except Declined:
            return "caught inside"
        return "no failure"

    @workflow(name="w")
    def body() -> Durable[Any]:
        inside = yield from gather(careful())
        try:
            yield from gather(charge(2))
        except Declined:
            return inside, "caught around"
        return inside

    entries = [activity_error(index, f"{index}.0.0", "charge", Declined()) for index in (0, 1)]
    assert value_of(run(body, *entries)) == (("caught inside",), "caught around")


# --- failed attempts ----------------------------------------------------------------------------------------------


@workflow(name="runner.entries.retried")
def retried() -> Durable[Any]:
    """An activity that is tried several times next to a timer."""
    results = yield from gather(charge(1), sleep(100))
    return results[0], now()


def test_retry_changes_the_bookkeeping_only() -> None:
    """A failed attempt sets the count, the next time and the error, but the body sees nothing, not even the time."""
    session = a_session(retried)
    session.start()
    result = session.feed(activity_retry(5, "0.0.0", "charge", seconds(8)))
    assert (opened(result), withdrawn(result)) == ([], [])
    wait = session.waits["0.0.0"]
    assert (wait.attempt, wait.retry_at, wait.due) == (2, seconds(8), seconds(8))
    assert wait.error is not None
    assert "not yet" in wait.error
    assert session.now == seconds(0)
    session.feed(activity_retry(9, "0.0.0", "charge", seconds(20)))
    assert (wait.attempt, wait.retry_at) == (3, seconds(20))
    session.feed(activity_ok(21, "0.0.0", "charge", 4))
    assert value_of(session.feed(timer_fired(100, "0.1.0"))) == (4, instant(100))


def test_wake_at_counts_retries_that_are_not_in_flight() -> None:
    """A retry that is due wakes the workflow unless its attempt is running; an answered one no longer counts."""
    session = a_session(retried)
    session.replay([activity_retry(5, "0.0.0", "charge", seconds(8))])
    assert session.wake_at() == seconds(8)
    assert session.wake_at(in_flight={"0.0.0"}) == seconds(100)
    assert session.wake_at(in_flight={"0.0.0", "0.1.0"}) is None
    session.feed(activity_ok(9, "0.0.0", "charge", 4))
    assert session.wake_at() == seconds(100)


# --- divergence ---------------------------------------------------------------------------------------------------


@workflow(name="runner.entries.fixed")
def fixed() -> Durable[Any]:
    """Waits for two things at once, then ends."""
    return (yield from gather(charge(1), sleep(5)))


ELSEWHERE = "nothing here; it waits for activity charge at 0.0.0, timer timer at 0.1.0"
DIVERGENCES: list[tuple[HistoryEntry, str, str]] = [
    (event_came(1, "0.0.0", None), "event approval", "activity charge"),
    (child_ok(1, "0.0.0", "charge", 1), "child charge", "activity charge"),
    (activity_ok(1, "0.0.0", "ship", 1), "activity ship", "activity charge"),
    (activity_error(1, "0.0.0", "ship", Declined()), "activity ship", "activity charge"),
    (activity_retry(1, "0.0.0", "ship", seconds(2)), "activity ship", "activity charge"),
    (activity_ok(1, "0.1.0", "charge", 1), "activity charge", "timer timer"),
    (activity_ok(1, "0", "charge", 1), "activity charge", ELSEWHERE),
    (timer_fired(1, "0.1.1"), "timer timer", ELSEWHERE),
    (activity_ok(1, "", "charge", 1), "activity charge", ELSEWHERE),
]


@pytest.mark.parametrize(("entry", "recorded", "asked"), DIVERGENCES, ids=lambda param: str(param)[:40])
def test_entry_without_a_wait_diverges(entry: HistoryEntry, recorded: str, asked: str) -> None:
    """A wrong kind, name or position is a divergence that names both sides, and the session does not change."""
    session = a_session(fixed)
    before = picture(session, session.start())
    with pytest.raises(HistoryDiverged) as caught:
        session.feed(entry)
    error = caught.value
    assert (error.workflow_id, error.position, error.recorded, error.asked) == ("w-1", entry.position, recorded, asked)
    assert f"- recorded: {recorded}\n" in str(error)
    assert f"+ code asks: {asked}\n" in str(error)
    assert picture(session, Suspended()) == before


def test_entry_after_the_end_diverges() -> None:
    """An entry after the end of the body is a divergence; so is a second answer to the same wait."""
    session = a_session(fixed)
    session.replay([activity_ok(1, "0.0.0", "charge", 1), timer_fired(5, "0.1.0")])
    with pytest.raises(HistoryDiverged) as caught:
        session.feed(timer_fired(6, "0.1.0"))
    assert caught.value.asked == "nothing: the workflow has ended"
    assert session.now == seconds(5)


def test_entry_before_the_start_diverges() -> None:
    """A session that was not started waits for nothing."""
    with pytest.raises(HistoryDiverged):
        a_session(fixed).feed(timer_fired(5, "0.1.0"))


UNREADABLE: list[Callable[[], HistoryEntry]] = [
    lambda: activity_ok(1, "0.0.0", "charge", "text"),
    lambda: with_outcome(activity_ok(1, "0.0.0", "charge", 1), "{"),
    lambda: with_outcome(activity_error(1, "0.0.0", "charge", Declined()), "5"),
]


@pytest.mark.parametrize("make", UNREADABLE)
def test_unreadable_entry_changes_nothing(make: Callable[[], HistoryEntry]) -> None:
    """An outcome that cannot be decoded is a CodecError, and the wait stays open for a valid one."""
    session = a_session(fixed)
    before = picture(session, session.start())
    with pytest.raises(CodecError):
        session.feed(make())
    assert session.now == before["now"]
    assert list(session.waits) == ["0.0.0", "0.1.0"]
    session.feed(activity_ok(1, "0.0.0", "charge", 3))
    assert value_of(session.feed(timer_fired(5, "0.1.0")))[0] == 3


def test_event_is_read_by_its_payload_type() -> None:
    """The payload of an event is decoded by the type in its subscript, for its name and key."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from approval.wait("k-1"))

    session: WorkflowSessionRunner = a_session(body)
    session.start()
    assert [wait.name for wait in session.waits.values()] == ["approval[k-1]"]
    with pytest.raises(CodecError, match="event approval: payload"):
        session.feed(event_came(1, "0", 5, "approval[k-1]"))
    assert value_of(session.feed(event_came(1, "0", "yes", "approval[k-1]"))) == "yes"


def test_error_entry_of_a_timer_is_raised() -> None:
    """Any kind of wait can be answered with an error; the session does not check where it comes from."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from sleep(1))

    entry = HistoryEntry(1, "0", EntryKind.TIMER, "timer", EntryStatus.ERROR, pack_error(Declined("x")), seconds(1))
    assert type(error_of(run(body, entry))) is Declined


def test_failed_attempt_of_a_timer_is_passed_over() -> None:
    """A RETRY entry for a wait other than an activity, from a damaged history, leaves that wait open."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from sleep(1))

    session = a_session(body)
    session.start()
    entry = HistoryEntry(1, "0", EntryKind.TIMER, "timer", EntryStatus.RETRY, pack_error(Declined("x")), seconds(1))
    assert isinstance(session.feed(entry), Suspended)
    assert list(session.waits) == ["0"]
