"""`spawn`, the handle that it returns, and `publish`, on the side of the runner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from durable.errors import (
    CodecError,
    HistoryDiverged,
    InvalidValue,
    OperationMisused,
    TimedOut,
    WrongType,
)
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.children import ChildHandle, Spawn, spawn
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.publishing import publish
from durable.runner.results import ContinueAs, Suspended
from tests.runner.builders import (
    a_session,
    approval,
    charge,
    error_of,
    event_came,
    opened,
    picture,
    run,
    seconds,
    timer_fired,
    value_of,
    withdrawn,
)

ID = "w-1/0"


@workflow(name="child")
def child(text: str = "") -> Durable[int]:
    """The child to spawn."""
    yield from approval.wait()
    return len(text)


def happened(seq: int, position: str, kind: EntryKind, name: str, value: Any) -> HistoryEntry:
    """An entry about a spawned child."""
    return HistoryEntry(seq, position, kind, name, EntryStatus.OK, json.dumps(value), seconds(seq))


def spawned(seq: int = 1, position: str = "0", id: str = ID) -> HistoryEntry:
    """A child was started."""
    return happened(seq, position, EntryKind.SPAWN, "child", id)


@workflow(name="parent")
def parent() -> Durable[list[Any]]:
    """Spawns, waits for the end twice, and cancels."""
    handle = yield from spawn(child("abc"))
    first = yield from handle.result()
    second = yield from handle.result()
    return [handle.id, first, second, (yield from handle.cancel("late"))]


def test_steps_of_a_spawned_child() -> None:
    """The start, the results and the cancellation each wait for their own kind of entry, named by call or child."""
    session = a_session(parent)
    result = session.start()
    assert isinstance(result, Suspended)
    (wait,) = result.opened
    assert (str(wait), wait.input) == ("spawn child", '{"text":"abc"}')
    entries = [spawned(), *(happened(seq, str(seq - 1), EntryKind.RESULT, ID, 3) for seq in (2, 3))]
    for entry in entries:
        result = session.feed(entry)
    assert isinstance(result, Suspended)
    assert [str(wait) for wait in result.opened] == [f"cancel child {ID}"]
    assert value_of(session.feed(happened(4, "3", EntryKind.CANCEL_CHILD, ID, True))) == [ID, 3, 3, True]
    replayed = a_session(parent)
    again = a_session(parent)
    assert picture(replayed, replayed.replay(entries)) == picture(again, again.replay(entries))


@pytest.mark.parametrize(
    "entry",
    [
        happened(2, "1", EntryKind.RESULT, "w-1/9", 3),
        happened(2, "1", EntryKind.CHILD, "child", 3),
        happened(2, "1", EntryKind.CANCEL_CHILD, ID, True),
    ],
)
def test_another_child_is_a_divergence(entry: HistoryEntry) -> None:
    """The recorded end of another child, or of one that was called directly, does not fit a wait for this one."""
    with pytest.raises(HistoryDiverged, match=f"result {ID}"):
        run(parent, spawned(), entry)


def test_result_that_cannot_be_read() -> None:
    """A recorded result that does not fit the child's result type is refused with its name, and so is a recorded id."""
    with pytest.raises(CodecError, match="workflow child: result"):
        run(parent, spawned(), happened(2, "1", EntryKind.RESULT, ID, "three"))
    with pytest.raises(CodecError, match="the id of a spawned child"):
        run(parent, happened(1, "0", EntryKind.SPAWN, "child", 5))


def test_giving_up_a_result() -> None:
    """A result that loses a race is withdrawn; one that takes too long is named in the error."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        handle = yield from spawn(child())
        yield from race(handle.result(), approval.wait())
        return (yield from handle.result().within(5))

    result = run(body, spawned(), event_came(2, "1.1.0", "yes"))
    assert (withdrawn(result), opened(result)) == (["1.0.0"], ["2.0.0", "2.1.0"])
    error = error_of(run(body, spawned(), event_came(2, "1.1.0", "yes"), timer_fired(9, "2.1.0")))
    assert isinstance(error, TimedOut)
    assert str(error) == f"result of child '{ID}' did not finish within 5 s"


def test_session_notes_that_it_has_spawned() -> None:
    """The session notes a spawn once the start of the child is recorded."""
    session = a_session(parent)
    session.start()
    assert not session.has_spawned
    session.feed(spawned())
    assert session.has_spawned


def _refused(op: Any) -> WorkflowDef[[], Any]:
    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from op()

    return body


# For calls that a type checker would refuse.
any_spawn: Any = spawn
any_child: Any = child


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (lambda: any_spawn(charge(1)), WrongType, "spawn: takes a call of a @workflow function, not charge(...)"),
        (lambda: any_spawn(child), WrongType, "not <workflow child version 1>"),
        (lambda: any_spawn(child(), on_parent_close="keep"), WrongType, "on_parent_close must be an OnParentClose"),
        (lambda: spawn(child(), id=""), InvalidValue, "child workflow id: must not be empty"),
        (lambda: any_spawn(child(), id=5), WrongType, "child workflow id: must be a str"),
        (lambda: spawn(any_child(5)), CodecError, "workflow child: parameter 'text'"),
        (lambda: spawn(any_child(1, 2)), TypeError, "too many positional arguments"),
        (lambda: ChildHandle("x", child).cancel(reason=""), InvalidValue, "reason: must not be empty"),
    ],
)
def test_refused_where_it_is_written(op: Any, error: type[Exception], message: str) -> None:
    """An invalid `spawn` is refused in the body, with the function, the parameter and the fix."""
    raised = error_of(run(_refused(op)))
    assert isinstance(raised, error)
    assert message in str(raised)


def test_given_ids() -> None:
    """An id may be passed to `spawn` or to the call; that of `spawn` wins."""
    ops = [spawn(child().with_id("a")), spawn(child(), "b"), spawn(child().with_id("a"), id="b"), spawn(child())]
    assert [op.child_id for op in ops if isinstance(op, Spawn)] == ["a", "b", "b", None]
    assert repr(ChildHandle("a", child)) == "<child 'a'>"
    assert [str(op) for op in (ops[0], ChildHandle("a", child).cancel())] == [
        "spawn of child(...)", "cancellation of child 'a'",
    ]  # fmt: skip


def test_forgotten_spawn() -> None:
    """A `spawn`, or a result, that is never yielded is named like any other operation."""

    @workflow(name="w")
    def body() -> Durable[None]:
        spawn(child())  # type: ignore[unused-awaitable]
        yield from approval.wait()

    assert "spawn of child(...) was created at" in str(error_of(run(body)))


# --- publish ------------------------------------------------------------------------------------------------------


@workflow(name="publisher")
def publisher() -> Durable[Any]:
    """Publishes at several points."""
    publish("begun")
    for number in range(2):
        yield from approval.wait()
        publish([number])
    raise publisher.continue_as()


def test_publications_say_after_which_entry() -> None:
    """The last value is kept with the number of the entry before it, in every kind of step."""
    session = a_session(publisher)
    result = session.start()
    seen = [session.published]
    for seq, position in ((1, "0"), (2, "1")):
        result = session.feed(event_came(seq, position, "yes"))
        seen.append(session.published)
    assert seen == [(0, '"begun"'), (1, "[0]"), (2, "[1]")]
    assert isinstance(result, ContinueAs)


def test_bodies_that_are_closed_publish_nothing() -> None:
    """Values published in the `finally` of a closed body or of a losing branch are not kept."""

    def branch() -> Durable[None]:
        try:
            yield from approval.wait()
        finally:
            publish("closing")

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from race(branch(), charge(1))
        yield from gather(branch())

    session = a_session(body)
    session.start()
    session.feed(HistoryEntry(1, "0.1.0", EntryKind.ACTIVITY, "charge", EntryStatus.OK, "1", seconds(1)))
    session.close()
    assert session.published is None


def test_publish_outside() -> None:
    """Outside of a workflow there is no progress to show."""
    with pytest.raises(OperationMisused, match=r"publish\(\) works only inside a workflow body"):
        publish(1)
