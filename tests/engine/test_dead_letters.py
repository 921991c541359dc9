"""Events that their workflow never took."""

from __future__ import annotations

import pytest

from durable import DeadLetterNotFound, DeadLetterPolicy, Delivered, Event, PendingEventsFull, Queued, WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import ListLetters, RemoveLetter, ReplayLetter, TerminateWorkflow
from durable.errors import WorkflowNotFound
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, collector, go, late_waiter, nothing, other, sleeper, waiter, worker


def _with_letters(*numbers: int) -> DirectEngine:
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(1000))
    for number in numbers:
        engine.send(go, number, to="w")
    engine.cancel()
    return engine


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "terminate"])
@pytest.mark.parametrize("room", [1, 1000])
def test_letters_keep_what_was_not_taken(end: str, room: int) -> None:
    """However a workflow ends, its untaken events become dead letters with name, key, payload and times."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(worker())
    (effect,) = engine.activities
    engine.send(go, 1, to="w")
    sent = engine.clock.now()
    engine.send(other, 2, to="w", key="k")
    engine.start(sleeper(), "elsewhere")
    engine.clock.advance(5)
    if end == "complete":
        engine.finish(effect, 1)
    elif end == "fail":
        engine.fail(effect, TypeError())
        engine.advance(10)
        engine.advance(20)
        engine.do(TerminateWorkflow("w"))
    else:
        engine.do(TerminateWorkflow("w")) if end == "terminate" else engine.cancel()
    buried = [(letter.name, letter.event_key, letter.payload, letter.workflow_id) for letter in engine.letters()]
    assert buried == [("go", "", 1, "w"), ("other", "k", 2, "w")]
    assert engine.letters()[0].sent_at_us == sent
    assert engine.letters()[0].died_at_us == engine.record().finished_at


def test_mail_of_a_workflow_that_ends_at_once() -> None:
    """Mail that was kept for an id is not lost if its workflow ends in its first step."""
    engine = DirectEngine(*EVERY)
    engine.send(go, 1, to="w", allow_unstarted=True)
    engine.start(nothing())
    assert [letter.payload for letter in engine.letters()] == [1]


def test_discard() -> None:
    """With DISCARD, untaken events are deleted with their workflow."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.DISCARD))
    engine.start(sleeper())
    engine.send(go, 1, to="w")
    engine.advance(60)
    assert (engine.letters(), engine.pending("go")) == ([], 0)


@pytest.mark.parametrize("waiting", [True, False])
def test_move_to_broadcast(waiting: bool) -> None:
    """With MOVE_TO_BROADCAST, untaken events lose their target and go to a waiter, or to the next one to wait."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(sleeper())
    for number in (1, 2):
        engine.send(go, number, to="w")
    if waiting:
        engine.start(collector(2), "taker")
    engine.advance(60)
    if not waiting:
        assert engine.pending("go") == 2
        engine.start(collector(2), "taker")
    assert engine.result("taker") == [1, 2]
    assert (engine.letters(), engine.pending("go")) == ([], 0)


def test_list_pages() -> None:
    """Letters are listed oldest first, page by page."""
    engine = _with_letters(1, 2, 3)
    first = engine.do(ListLetters(after=0, limit=2))
    rest = engine.do(ListLetters(after=first[-1].id, limit=2))
    assert [letter.payload for letter in (*first, *rest)] == [1, 2, 3]


@pytest.mark.parametrize("to", ["taker", None])
def test_replay_wakes_a_waiter(to: str | None) -> None:
    """A replayed letter is delivered to a waiter, and the letter is deleted."""
    engine = _with_letters(5)
    engine.start(waiter(), "taker")
    assert engine.do(ReplayLetter(engine.letters()[0].id, to)) == Delivered(("taker",))
    assert engine.result("taker") == 5
    assert engine.letters() == []


def test_replay_without_a_waiter_is_queued() -> None:
    """A replayed letter that nobody waits for is pending like any event."""
    engine = _with_letters(5)
    assert engine.do(ReplayLetter(engine.letters()[0].id)) == Queued()
    engine.start(waiter(), "later")
    assert engine.result("later") == 5


@pytest.mark.parametrize("together", [True, False])
def test_replay_or_remove_twice(together: bool) -> None:
    """A letter can be replayed or removed once. The second attempt is refused because the letter is gone."""
    for first, second in ((ReplayLetter, RemoveLetter), (RemoveLetter, ReplayLetter)):
        engine = _with_letters(5)
        id = engine.letters()[0].id
        _, reply = engine.two(first(id), second(id), together=together)
        assert refusal(reply) == (DeadLetterNotFound, id)
        assert engine.letters() == []
        assert engine.pending("go") == (1 if first is ReplayLetter else 0)


def test_failed_replay_keeps_the_letter() -> None:
    """A letter whose new target is unknown, or for which there is no room, stays a letter."""
    engine = _with_letters(5)
    id = engine.letters()[0].id
    assert refusal(engine.batch(ReplayLetter(id, "nobody"))[0])[0] is WorkflowNotFound
    engine.config = EngineConfig(max_pending_events=1)
    engine.restart(*EVERY)
    engine.send(go, 1)
    assert refusal(engine.batch(ReplayLetter(id))[0])[0] is PendingEventsFull
    assert [letter.id for letter in engine.letters()] == [id]


def test_letter_born_and_replayed_in_one_batch() -> None:
    """A letter can be replayed in the batch in which its workflow ends."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.send(go, 5, to="w")
    serial = engine.state.serial
    replies = engine.batch(TerminateWorkflow("w"), call_of(waiter(), "taker"), ReplayLetter(serial))
    assert replies[2] == Delivered(("taker",))
    assert engine.letters() == []
    engine.start(sleeper(), "x")
    engine.send(go, 6, to="x")
    serial = engine.state.serial
    engine.batch(TerminateWorkflow("x"), RemoveLetter(serial))
    assert engine.letters() == []
    assert engine.status("x") is WorkflowStatus.CANCELLED
    assert engine.batch(event_of(go, 1)) == [Queued()]


def test_mail_that_the_last_wait_takes_does_not_become_a_letter() -> None:
    """A mailbox event that ends its workflow is taken, not buried, and other mailboxes stay intact."""
    engine = DirectEngine(*EVERY)
    for id in "ab":
        engine.start(late_waiter(), id)
        engine.send(go, 1, to=id)
    for effect in engine.activities:
        engine.finish(effect, 1)
    assert (engine.result("a"), engine.result("b"), engine.letters()) == (1, 1, [])


def test_mail_that_the_last_wait_takes_is_not_sent_on() -> None:
    """Under MOVE_TO_BROADCAST, an event that was taken does not wake a second workflow."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(late_waiter(), "a")
    engine.start(waiter(), "b")
    engine.send(go, 1, to="a")
    engine.finish(engine.activities[0], 1)
    assert (engine.status("a"), engine.status("b")) == (WorkflowStatus.SUCCEEDED, WorkflowStatus.SUSPENDED)


@pytest.mark.parametrize(("expire_after", "status"), [
    (60, WorkflowStatus.SUSPENDED), (61, WorkflowStatus.SUCCEEDED),
])  # fmt: skip
def test_mail_that_has_expired_is_not_sent_on(expire_after: int, status: WorkflowStatus) -> None:
    """Under MOVE_TO_BROADCAST, an event that has expired when its workflow ends is dropped."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(waiter(), "taker")
    engine.start(sleeper(60))
    engine.send(Event[int]("go", expire_after=expire_after), 5, to="w")
    engine.advance(60)
    assert (engine.status("taker"), engine.letters(), engine.pending("go")) == (status, [], 0)


def test_mailbox_with_several_names_is_buried_whole() -> None:
    """A mailbox with several event names loses nothing when its workflow ends."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_pending_events=2))
    engine.start(sleeper())
    engine.send(go, 1, to="w")
    engine.send(other, 1, to="w")
    engine.advance(60)
    assert {letter.name for letter in engine.letters()} == {"go", "other"}


def test_lower_limit_loses_no_mail() -> None:
    """Mail that loses its target is not refused for lack of room, because it was accepted before."""
    policy = DeadLetterPolicy.MOVE_TO_BROADCAST
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=policy))
    engine.start(sleeper())
    for number in range(3):
        engine.send(go, number, to="w")
    engine.config = EngineConfig(dead_letter_policy=policy, max_pending_events=1)
    engine.restart(*EVERY)
    engine.advance(60)
    assert engine.pending("go") == 3
