"""`patched` and `removed`: which code a run takes, and the places of removed steps."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import Cancelled, HistoryDiverged, InvalidValue, OperationMisused, WrongType
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.changes import patched, removed
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, workflow
from durable.runner.determinism import now
from durable.runner.ops import Op, sleep
from durable.runner.past import NOTHING
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_ok,
    activity_retry,
    approval,
    cancellation,
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
    suspended,
    timer_fired,
    value_of,
)


def patch(seq: int, change_id: str, answer: bool) -> HistoryEntry:
    """The record of an answer of `patched`."""
    text = "true" if answer else "false"
    return HistoryEntry(seq, "", EntryKind.PATCH, change_id, EntryStatus.OK, text, seconds(seq))


def answers(session: WorkflowSessionRunner) -> list[tuple[str, bool]]:
    """The answers of `patched` that are not recorded yet."""
    return list(session.answers)


# --- patched ----------------------------------------------------------------------------------------------------------


@workflow(name="runner.patched")
def asking() -> Durable[list[bool]]:
    """Asks before, between and after its steps."""
    answers = [patched("first")]
    yield from charge(1)
    answers.append(patched("second"))
    yield from charge(2)
    return [*answers, patched("third"), patched("first")]


PAID = activity_ok(1, "0", "charge", 1)
PAID_TWICE = activity_ok(2, "1", "charge", 1)


def test_new_run_takes_the_new_code() -> None:
    """A body that runs its steps for the first time takes the new code, and each answer is recorded once."""
    session = a_session(asking)
    session.start()
    session.feed(PAID)
    assert value_of(session.feed(PAID_TWICE)) == [True, True, True, True]
    assert answers(session) == [("first", True), ("second", True), ("third", True)]


def test_answers_of_one_run_are_not_shared() -> None:
    """Bodies without a history share an empty past, but each gets its own answers recorded."""
    sessions = [a_session(asking, id=id) for id in ("w-1", "w-2")]
    for session in sessions:
        session.start()
    assert [answers(session) for session in sessions] == [[("first", True)]] * 2
    assert not NOTHING.patches


@pytest.mark.parametrize(
    ("count", "expected"), [(0, [False, True, True, False]), (1, [False, False, True, False]), (2, [False] * 4)]
)
def test_run_that_was_under_way_takes_the_old_code(count: int, expected: list[bool]) -> None:
    """Calls reached during a replay, including the step at its end, get the old code; later calls get the new one."""
    session = a_session(asking)
    result = session.replay([PAID, PAID_TWICE][:count])
    for entry in [PAID, PAID_TWICE][count:]:
        result = session.feed(entry)
    assert value_of(result) == expected
    assert answers(session) == [(name, expected[number]) for number, name in enumerate(("first", "second", "third"))]


@pytest.mark.parametrize("answer", [True, False])
def test_recorded_answer_stands(answer: bool) -> None:
    """A replay gives the recorded answer, wherever it is in the history; a second record of it is ignored."""
    session = a_session(asking)
    history = [PAID, PAID_TWICE, patch(3, "first", answer), patch(4, "second", answer), patch(5, "first", not answer)]
    assert value_of(session.replay(history)) == [answer, answer, False, answer]
    assert answers(session) == [("third", False)]
    assert session.fed == 2


def test_answer_of_a_call_that_is_gone() -> None:
    """The record of an answer is not fed, so the call can be taken out of the code."""

    @workflow(name="runner.patched")
    def mended() -> Durable[int]:
        return (yield from charge(1))

    assert value_of(run(mended, patch(1, "first", True), activity_ok(2, "0", "charge", 5))) == 5


def test_in_branches() -> None:
    """Each branch asks when it gets there, and one change has the same answer in all branches."""

    def branch(name: str, amount: int) -> Durable[tuple[bool, bool]]:
        yield from charge(amount)
        return patched(name), patched("both")

    @workflow(name="runner.patched.branches")
    def body() -> Durable[Any]:
        return (yield from gather(branch("a", 1), branch("b", 2)))

    session = a_session(body)
    session.replay([activity_ok(1, "0.1.0", "charge", 1)])
    result = session.feed(activity_ok(2, "0.0.0", "charge", 1))
    assert value_of(result) == ((True, False), (False, False))
    assert answers(session) == [("b", False), ("both", False), ("a", True)]


def test_in_an_undo() -> None:
    """An undo may ask, both in the function that makes it and in its steps."""

    def undo(_: int) -> Durable[None]:
        if patched("undo"):
            yield from notify("new")
        else:
            yield from notify("old")

    @workflow(name="runner.patched.undo")
    def body() -> Durable[None]:
        yield from charge(1).undo(lambda value: (patched("made"), undo(value))[1])
        raise Declined("no")

    session = a_session(body)
    session.start()
    result = session.feed(PAID)
    assert [wait.op.args for wait in suspended(result).opened] == [("new",)]  # type: ignore[attr-defined]
    assert answers(session) == [("made", True), ("undo", True)]
    session = a_session(body)
    session.replay([PAID])
    assert answers(session) == [("made", False), ("undo", False)]


def test_in_a_body_that_is_closed() -> None:
    """A body that is being closed gets an answer, but it is not recorded."""
    seen: list[bool] = []

    @workflow(name="runner.patched.closed")
    def body() -> Durable[None]:
        try:
            yield from charge(1)
        finally:
            seen.append(patched("late"))

    session = a_session(body)
    session.start()
    session.close()
    assert (seen, answers(session)) == ([True], [])


def test_in_a_branch_that_lost() -> None:
    """An answer to a losing branch that is being closed is not recorded, and a later call gets its own answer."""

    def loser() -> Durable[int]:
        try:
            return (yield from charge(1))
        finally:
            patched("lost")

    @workflow(name="runner.patched.loser")
    def body() -> Durable[bool]:
        yield from race(loser(), approval.wait())
        return patched("lost")

    session = a_session(body)
    session.start()
    assert value_of(session.feed(event_came(1, "0.1.0", None))) is True
    assert answers(session) == [("lost", True)]


@pytest.mark.parametrize("verb", [patched, removed])
@pytest.mark.parametrize(
    ("bad", "error"), [("", InvalidValue), ("x" * 256, InvalidValue), ("a\0", InvalidValue), (5, WrongType)]
)
def test_names_are_checked(verb: Any, bad: Any, error: type[Exception]) -> None:
    """A name that cannot be stored is refused in the body."""

    @workflow(name="runner.changes.bad")
    def body() -> Durable[None]:
        result = verb(bad)
        if isinstance(result, Op):
            yield from result

    assert isinstance(error_of(a_session(body).start()), error)


def test_outside_of_a_body() -> None:
    """`patched` works only in a workflow."""
    with pytest.raises(OperationMisused, match=r"patched\(\) works only inside a workflow body"):
        patched("x")


# --- removed ----------------------------------------------------------------------------------------------------------


def without(*names: str) -> Any:
    """A workflow whose first steps were removed. It returns the time right after them, and sleeps before that."""

    @workflow(name="runner.removed")
    def body() -> Durable[str]:
        for name in names:
            yield from removed(name)
        behind = now()
        yield from sleep(100)
        return behind.isoformat()

    return body


def test_new_run_continues_at_once() -> None:
    """Without recorded entries it ends at once and takes no time; later steps keep their positions."""
    session = a_session(without("charge", "approval"))
    assert opened(session.start()) == ["2"]
    assert session.waits["2"].deadline == seconds(100)


RECORDED: dict[str, tuple[str, list[HistoryEntry]]] = {
    "activity": ("charge", [activity_ok(1, "0", "charge", 1)]),
    "unreadable": ("charge", [activity_ok(1, "0", "charge", {"no": "number"})]),
    "failure": ("charge", [activity_error(1, "0", "charge", Declined("no"))]),
    "attempts": ("charge", [activity_retry(1, "0", "charge", None), activity_ok(2, "0", "charge", 1)]),
    "only attempts": ("charge", [activity_retry(1, "0", "charge", None), activity_retry(2, "0", "charge", None)]),
    "event": ("approval", [event_came(1, "0", "yes")]),
    "timer": ("timer", [timer_fired(1, "0")]),
    "child": ("child", [child_ok(1, "0", "child", 1)]),
    "pause": ("pause", [HistoryEntry(1, "0", EntryKind.PAUSE, "pause", EntryStatus.ERROR, "{}", seconds(1))]),
    "gather": ("both", [activity_ok(1, "0.1.0", "charge", 1), event_came(2, "0.0.0", None)]),
    "nested": ("all", [timer_fired(1, "0.1.0.0.3"), timer_fired(2, "0.0.0.1.0"), timer_fired(3, "0.0.1")]),
}


@pytest.mark.parametrize("shape", RECORDED)
def test_old_run_passes_over_recorded_entries(shape: str) -> None:
    """Results, failures and failed attempts are skipped, and a later deadline does not move."""
    name, entries = RECORDED[shape]
    session = a_session(without(name))
    result = session.replay(entries)
    assert [*session.waits] == ["1"]
    assert session.waits["1"].deadline == seconds(entries[-1].seq + 100)
    assert session.has_spawned
    fired = timer_fired(200, "1")
    assert value_of(session.feed(fired)) == instant(entries[-1].seq).isoformat()
    again = a_session(without(name))
    assert picture(again, again.replay([*entries, fired]))["ended"] == ("completed", instant(len(entries)).isoformat())
    assert opened(result) == ["1"]


def test_several_in_a_row() -> None:
    """Each `removed` replaces one step; those that were not reached yet take no time."""
    session = a_session(without("charge", "approval", "charge"))
    session.replay([activity_ok(1, "0", "charge", 1), event_came(2, "1", None)])
    assert session.waits["3"].deadline == seconds(102)


@pytest.mark.parametrize("name", ["Charge", "approval", "charge "])
def test_wrong_name_is_a_divergence(name: str) -> None:
    """An entry with another name belongs to another step."""
    with pytest.raises(HistoryDiverged) as caught:
        run(without(name), activity_ok(1, "0", "charge", 1))
    assert (caught.value.position, caught.value.recorded) == ("0", "activity charge")
    assert caught.value.asked == f"removed {name}"


def test_beside_other_branches() -> None:
    """In a gather the other branches continue, and the entry of the removed step is skipped in its turn."""

    @workflow(name="runner.removed.branches")
    def body() -> Durable[Any]:
        return (yield from gather(removed("approval"), charge(1), removed("never recorded")))

    history = [activity_ok(1, "0.1.0", "charge", 5), event_came(2, "0.0.0", "yes")]
    assert value_of(run(body, *history)) == (None, 5, None)
    assert value_of(run(body, *reversed(history))) == (None, 5, None)
    session = a_session(body)
    session.start()
    assert value_of(session.feed(history[0])) == (None, 5, None)


def test_decides_a_race_where_the_step_did() -> None:
    """The record of a removed step wins the race that it won. If the step had lost, the history no longer fits."""

    @workflow(name="runner.removed.race")
    def body() -> Durable[Any]:
        won = yield from race(old=removed("approval"), new=charge(1))
        return won.key

    assert value_of(run(body, event_came(1, "0.old.0", "yes"))) == "old"
    with pytest.raises(HistoryDiverged):
        run(body, activity_ok(1, "0.new.0", "charge", 5))


def test_cancelled_where_the_step_was() -> None:
    """A cancellation recorded before the end of the step is raised at its place."""

    @workflow(name="runner.removed.cancelled")
    def body() -> Durable[str]:
        try:
            yield from removed("charge")
            yield from charge(2)
        except Cancelled:
            return "cancelled"
        return "done"

    assert value_of(run(body, activity_retry(1, "0", "charge", None), cancellation(2))) == "cancelled"


def test_error_that_cannot_be_read() -> None:
    """A recorded error that cannot be rebuilt is skipped unread."""
    broken = HistoryEntry(1, "0", EntryKind.ACTIVITY, "charge", EntryStatus.ERROR, "{", seconds(1))
    session = a_session(without("charge"))
    session.replay([broken])
    assert [*session.waits] == ["1"]


def test_bare_yield_is_named() -> None:
    """A `removed` without `yield from` is refused, and the message names it."""

    @workflow(name="runner.removed.bare")
    def body() -> Durable[None]:
        yield removed("charge")

    assert "bare 'yield removed charge': write 'yield from'" in str(error_of(a_session(body).start()))
