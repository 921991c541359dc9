"""Pauses in a body: the question, the answer, and the error if there is no answer."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest

from durable.errors import (
    Cancelled,
    CodecError,
    HistoryDiverged,
    InvalidValue,
    PauseCancelled,
    PauseExpired,
    TimedOut,
    WrongType,
)
from durable.model.clock import SECOND
from durable.model.error_codec import pack_error
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import sleep
from durable.runner.pauses import PauseOp, pause
from tests.runner.builders import (
    a_session,
    approval,
    cancellation,
    error_of,
    event_came,
    opened,
    picture,
    run,
    seconds,
    suspended,
    timer_fired,
    value_of,
    withdrawn,
)


@attrs.frozen
class Decision:
    """A person's decision."""

    ok: bool
    by: str


def answered(seq: int, position: str, value: Any) -> HistoryEntry:
    """A person has answered."""
    return HistoryEntry(seq, position, EntryKind.PAUSE, "pause", EntryStatus.OK, json.dumps(value), seconds(seq))


def unanswered(seq: int, position: str, error: Exception) -> HistoryEntry:
    """The pause ended without an answer."""
    return HistoryEntry(seq, position, EntryKind.PAUSE, "pause", EntryStatus.ERROR, pack_error(error), seconds(seq))


@workflow(name="runner.pauses.asking")
def asking() -> Durable[Any]:
    """One question with a limit."""
    return (yield from pause(returns=Decision, prompt={"amount": 5}, expires_after=timedelta(days=3)))


@workflow(name="runner.pauses.async_asking")
async def async_asking() -> Decision:
    """The same as a coroutine."""
    return await pause(returns=Decision, prompt={"amount": 5}, expires_after=timedelta(days=3))


BOTH_FORMS = pytest.mark.parametrize("form", [asking, async_asking], ids=["generator", "coroutine"])


def ask_twice(who: str) -> Durable[list[str]]:
    """A helper with two questions in a row."""
    first = yield from pause(returns=str, prompt=f"{who} 1")
    second = yield from pause(returns=str, prompt=f"{who} 2")
    return [first, second]


@workflow(name="runner.pauses.several")
def several() -> Durable[Any]:
    """Questions in a row, in branches, and in helpers of branches."""
    yield from pause(returns=None, prompt="ready?")
    both = yield from gather(ask_twice("a"), ask_twice("b"), pause(returns=int, prompt="c"))
    won = yield from race(ask_twice("d"), sleep(60))
    return both, won


@BOTH_FORMS
def test_a_pause_has_prompt_type_and_deadline(form: WorkflowDef[[], Any]) -> None:
    """An open pause has its prompt as JSON, the name of the answer's type, and its deadline; nothing is recorded."""
    session = a_session(form)
    assert opened(session.start()) == ["0"]
    wait = session.waits["0"]
    assert isinstance(wait.op, PauseOp)
    assert (str(wait), wait.input, wait.op.expects) == ("pause pause", '{"amount":5}', "Decision")
    assert wait.deadline == session.wake_at() == seconds(3 * 86_400)
    assert session.due(seconds(3 * 86_400)) == [wait]
    assert session.due(seconds(3 * 86_400) - 1) == []


@BOTH_FORMS
def test_an_answer_is_the_value(form: WorkflowDef[[], Any]) -> None:
    """The recorded answer is decoded as the requested type, and the deadline is gone with the pause."""
    session = a_session(form)
    session.start()
    ended = session.feed(answered(1, "0", {"ok": True, "by": "ann"}))
    assert value_of(ended) == Decision(True, "ann")
    assert session.wake_at() is None


def test_an_answer_that_was_read_already_is_not_read_again() -> None:
    """The body gets the decoded value that comes with the entry."""
    session = a_session(asking)
    session.start()
    decision = Decision(False, "bob")
    assert value_of(session.feed(answered(1, "0", "unread"), decision)) is decision


@pytest.mark.parametrize("error", [PauseExpired("w-1", "0"), PauseCancelled("w-1", "0", "no longer needed")], ids=repr)
@BOTH_FORMS
def test_recorded_expiry_or_cancellation_is_raised(form: WorkflowDef[[], Any], error: Exception) -> None:
    """An expired or cancelled pause raises its error with its fields, the same on every replay."""
    for _ in range(2):
        raised = error_of(run(form, unanswered(1, "0", error)))
        assert (type(raised), raised.args) == (type(error), error.args)


def test_expiry_gives_the_default() -> None:
    """`or_default` replaces the expiry of a pause, as it replaces a timeout, and no other error."""

    @workflow(name="runner.pauses.hesitant")
    def hesitant() -> Durable[Any]:
        first = yield from pause(returns=bool, expires_after=5).or_default("late")
        second = yield from pause(returns=bool).within(5).or_default("later")
        return first, second, (yield from pause(returns=bool, expires_after=5).or_default("never"))

    gone = [unanswered(1, "0", PauseExpired("w", "0")), timer_fired(2, "1.1.0")]
    assert value_of(run(hesitant, *gone, answered(3, "2", True))) == ("late", "later", True)
    assert isinstance(error_of(run(hesitant, *gone, unanswered(3, "2", PauseCancelled("w", "2")))), PauseCancelled)


def test_several_pauses_are_answered_in_any_order() -> None:
    """Pauses of branches are open at once, each at its own position, and the next one opens after its predecessor."""
    session = a_session(several)
    assert opened(session.start()) == ["0"]
    assert opened(session.feed(answered(1, "0", None))) == ["1.0.0", "1.1.0", "1.2.0"]
    assert opened(session.feed(answered(2, "1.1.0", "b1"))) == ["1.1.1"]
    assert opened(session.feed(answered(3, "1.2.0", 7))) == []
    assert opened(session.feed(answered(4, "1.0.0", "a1"))) == ["1.0.1"]
    session.feed(answered(5, "1.1.1", "b2"))
    assert opened(session.feed(answered(6, "1.0.1", "a2"))) == ["2.0.0", "2.1.0"]
    assert opened(session.feed(answered(7, "2.0.0", "d1"))) == ["2.0.1"]
    ended = session.feed(answered(8, "2.0.1", "d2"))
    both, won = value_of(ended)
    assert both == (["a1", "a2"], ["b1", "b2"], 7)
    assert (won.key, won.value) == (0, ["d1", "d2"])


def test_a_pause_that_lost_is_withdrawn() -> None:
    """A losing branch withdraws its question, even the second in a row."""
    session = a_session(several)
    before = [answered(n, p, v) for n, p, v in [
        (1, "0", None), (2, "1.0.0", "a"), (3, "1.0.1", "a"), (4, "1.1.0", "b"), (5, "1.1.1", "b"), (6, "1.2.0", 1),
        (7, "2.0.0", "d1"),
    ]]  # fmt: skip
    session.replay(before[:-1])
    session.feed(before[-1])
    ended = session.feed(timer_fired(8, "2.1.0"))
    assert value_of(ended)[1].key == 1
    assert [wait.position for wait in session.waits.withdrawn or ()] == ["2.0.1"]


def test_a_limit_withdraws_the_pause() -> None:
    """`within` withdraws the question when the limit is reached."""

    @workflow(name="runner.pauses.limited")
    def limited() -> Durable[Any]:
        try:
            yield from pause(returns=bool).within(5)
        except TimedOut as error:
            yield from sleep(60)
            return str(error)

    session = a_session(limited)
    session.start()
    assert withdrawn(session.feed(timer_fired(5, "0.1.0"))) == ["0.0.0"]
    assert value_of(session.feed(timer_fired(65, "1"))) == "pause did not finish within 5 s"


def test_replay_is_the_same_as_live() -> None:
    """A rebuilt body asks the same questions with the same deadlines, wherever it was interrupted."""
    entries = [answered(1, "0", None), answered(2, "1.1.0", "b1"), answered(3, "1.2.0", 7)]
    live = a_session(several)
    result = live.start()
    for count in range(len(entries) + 1):
        again = a_session(several)
        assert picture(again, again.replay(entries[:count])) == picture(live, result)
        if count < len(entries):
            result = live.feed(entries[count])


def test_cancellation_reaches_a_paused_body() -> None:
    """`Cancelled` is raised where the body has paused, and the question is withdrawn."""
    session = a_session(asking)
    session.start()
    assert isinstance(error_of(session.feed(cancellation(1))), Cancelled)
    assert [wait.position for wait in session.waits.withdrawn or ()] == ["0"]
    assert session.wake_at() is None


def test_a_pause_is_not_an_event() -> None:
    """An answer to a pause does not fit a wait for an event, nor an event a pause."""

    @workflow(name="runner.pauses.event")
    def waits() -> Durable[Any]:
        return (yield from approval.wait())

    with pytest.raises(HistoryDiverged, match="recorded: pause pause"):
        run(waits, answered(1, "0", "yes"))
    with pytest.raises(HistoryDiverged, match="code asks: pause pause"):
        run(asking, event_came(1, "0", "yes"))
    with pytest.raises(CodecError, match="pause: answer"):
        run(asking, answered(1, "0", "yes"))


@pytest.mark.parametrize(
    ("returns", "words"),
    [(bool, "bool"), (Decision, "Decision"), (list[int], "list[int]"), (str | None, "str | None"), (None, "NoneType")],
)
def test_the_type_of_the_answer_in_words(returns: Any, words: str) -> None:
    """People see the name of a class, and a composed type as it is written."""
    assert PauseOp(returns, None, None).expects == words


@pytest.mark.parametrize(
    ("prompt", "text"),
    [(None, "null"), ("a ☃", '"a ☃"'), ([1, {"a": None}], '[1,{"a":null}]'), (Decimal("1.50"), '"1.50"'),
     (Decision(True, "ann"), '{"ok":true,"by":"ann"}')],
)  # fmt: skip
def test_a_prompt_is_stored_by_its_own_type(prompt: object, text: str) -> None:
    """A prompt is any value that can be stored; people see it as plain JSON."""

    @workflow(name="w")
    def body() -> Durable[bool]:
        return (yield from pause(returns=bool, prompt=prompt))

    [wait] = suspended(a_session(body).start()).opened
    assert wait.input == text


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"returns": bool, "expires_after": -1}, InvalidValue, "pause: expires_after"),
    ({"returns": bool, "expires_after": float("nan")}, InvalidValue, "pause: expires_after"),
    ({"returns": bool, "expires_after": "5"}, WrongType, "pause: expires_after"),
    ({"returns": bool, "expires_after": timedelta.max}, InvalidValue, "pause: expires_after"),
    ({"returns": bool, "expires_after": 8000 * 365.25 * 86_400}, InvalidValue, "year 9999"),
    ({"returns": bool, "prompt": object()}, CodecError, "pause: prompt"),
    ({"returns": bool, "prompt": float("nan")}, CodecError, "pause: prompt"),
    ({"returns": type(lambda: None)}, CodecError, "pause: answer"),
    ({"returns": "Decision"}, CodecError, "pause: answer"),
]


@pytest.mark.parametrize(("arguments", "error", "says"), BAD, ids=lambda case: str(case)[:40])
def test_invalid_pause_is_refused_in_the_body(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    """A prompt or a type that cannot be stored, and an invalid duration, are refused where the pause is written."""

    @workflow(name="runner.pauses.bad")
    def bad() -> Durable[Any]:
        try:
            yield from pause(**arguments)
        except error as refused:
            yield from pause(returns=bool, expires_after=1)
            return str(refused)

    session = a_session(bad)
    assert len(opened(session.start())) == 1
    position = next(iter(session.waits))
    assert [wait.position for wait in session.waits.timed.values()] == [position]
    assert session.wake_at() == seconds(0) + SECOND
    assert says in value_of(session.feed(answered(1, position, True)))
