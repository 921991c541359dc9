"""What becomes of events that their workflow never took."""

from __future__ import annotations

import pytest

from durable import DeadLetterNotFound, DeadLetterPolicy, Delivered, Event, PendingEventsFull, Queued, WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import ListLetters, RemoveLetter, ReplayLetter, TerminateWorkflow
from durable.errors import WorkflowNotFound
from tests.engine.desk import Desk, call_of, event_of, refusal
from tests.engine.flows import EVERY, collector, go, late_waiter, nothing, other, sleeper, waiter, worker


def _with_letters(*numbers: int) -> Desk:
    desk = Desk(*EVERY)
    desk.start(sleeper(1000))
    for number in numbers:
        desk.send(go, number, to="w")
    desk.cancel()
    return desk


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "terminate"])
@pytest.mark.parametrize("room", [1, 1000])
def test_letters_keep_what_was_not_taken(end: str, room: int) -> None:
    """However a workflow ends, its undelivered events become dead letters with name, key, payload and times."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(worker())
    (effect,) = desk.activities
    desk.send(go, 1, to="w")
    sent = desk.clock.now()
    desk.send(other, 2, to="w", key="k")
    desk.start(sleeper(), "elsewhere")
    desk.clock.advance(5)
    if end == "complete":
        desk.finish(effect, 1)
    elif end == "fail":
        desk.fail(effect, TypeError())
        desk.advance(10)
        desk.advance(20)
        desk.do(TerminateWorkflow("w"))
    else:
        desk.do(TerminateWorkflow("w")) if end == "terminate" else desk.cancel()
    found = [(one.name, one.event_key, one.payload, one.workflow_id) for one in desk.letters()]
    assert found == [("go", "", 1, "w"), ("other", "k", 2, "w")]
    assert desk.letters()[0].sent_at_us == sent
    assert desk.letters()[0].died_at_us == desk.record().finished_at


def test_mail_of_a_workflow_that_ends_at_once() -> None:
    """Mail that was kept for an id whose workflow ends in its first step is not lost."""
    desk = Desk(*EVERY)
    desk.send(go, 1, to="w", allow_unstarted=True)
    desk.start(nothing())
    assert [letter.payload for letter in desk.letters()] == [1]


def test_discard() -> None:
    """With DISCARD undelivered events go with their workflow."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.DISCARD))
    desk.start(sleeper())
    desk.send(go, 1, to="w")
    desk.advance(60)
    assert (desk.letters(), desk.pending("go")) == ([], 0)


@pytest.mark.parametrize("waiting", [True, False])
def test_move_to_broadcast(waiting: bool) -> None:
    """With MOVE_TO_BROADCAST undelivered events become untargeted: one who waits gets them, or the next to come."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(sleeper())
    for number in (1, 2):
        desk.send(go, number, to="w")
    if waiting:
        desk.start(collector(2), "taker")
    desk.advance(60)
    if not waiting:
        assert desk.pending("go") == 2
        desk.start(collector(2), "taker")
    assert desk.result("taker") == [1, 2]
    assert (desk.letters(), desk.pending("go")) == ([], 0)


def test_list_pages() -> None:
    """Letters are listed oldest first, page by page."""
    desk = _with_letters(1, 2, 3)
    first = desk.do(ListLetters(after=0, limit=2))
    rest = desk.do(ListLetters(after=first[-1].id, limit=2))
    assert [letter.payload for letter in (*first, *rest)] == [1, 2, 3]


@pytest.mark.parametrize("to", ["taker", None])
def test_replay_wakes_a_waiter(to: str | None) -> None:
    """A replayed letter is delivered to one who waits, and is a letter no more."""
    desk = _with_letters(5)
    desk.start(waiter(), "taker")
    assert desk.do(ReplayLetter(desk.letters()[0].id, to)) == Delivered(("taker",))
    assert desk.result("taker") == 5
    assert desk.letters() == []


def test_replay_without_a_waiter_is_queued() -> None:
    """A replayed letter that nobody waits for is pending like any event."""
    desk = _with_letters(5)
    assert desk.do(ReplayLetter(desk.letters()[0].id)) == Queued()
    desk.start(waiter(), "later")
    assert desk.result("later") == 5


@pytest.mark.parametrize("together", [True, False])
def test_replay_or_remove_twice(together: bool) -> None:
    """A letter can be replayed or removed once; the second attempt is told that it is gone."""
    for first, second in ((ReplayLetter, RemoveLetter), (RemoveLetter, ReplayLetter)):
        desk = _with_letters(5)
        id = desk.letters()[0].id
        _, reply = desk.two(first(id), second(id), together=together)
        assert refusal(reply) == (DeadLetterNotFound, id)
        assert desk.letters() == []
        assert desk.pending("go") == (1 if first is ReplayLetter else 0)


def test_failed_replay_keeps_the_letter() -> None:
    """A letter whose new target is unknown, or that there is no room for, stays a letter."""
    desk = _with_letters(5)
    id = desk.letters()[0].id
    assert refusal(desk.batch(ReplayLetter(id, "nobody"))[0])[0] is WorkflowNotFound
    desk.config = EngineConfig(max_pending_events=1)
    desk.restart(*EVERY)
    desk.send(go, 1)
    assert refusal(desk.batch(ReplayLetter(id))[0])[0] is PendingEventsFull
    assert [letter.id for letter in desk.letters()] == [id]


def test_letter_born_and_replayed_in_one_batch() -> None:
    """A letter can be replayed in the batch in which its workflow ends."""
    desk = Desk(*EVERY)
    desk.start(sleeper())
    desk.send(go, 5, to="w")
    serial = desk.state.serial
    replies = desk.batch(TerminateWorkflow("w"), call_of(waiter(), "taker"), ReplayLetter(serial))
    assert replies[2] == Delivered(("taker",))
    assert desk.letters() == []
    desk.start(sleeper(), "x")
    desk.send(go, 6, to="x")
    serial = desk.state.serial
    desk.batch(TerminateWorkflow("x"), RemoveLetter(serial))
    assert desk.letters() == []
    assert desk.status("x") is WorkflowStatus.CANCELLED
    assert desk.batch(event_of(go, 1)) == [Queued()]


def test_mail_that_the_last_wait_takes_is_no_letter() -> None:
    """A mailbox event that ends its workflow is consumed; it is no dead letter, and hides nobody else's mail."""
    desk = Desk(*EVERY)
    for id in "ab":
        desk.start(late_waiter(), id)
        desk.send(go, 1, to=id)
    for effect in desk.activities:
        desk.finish(effect, 1)
    assert (desk.result("a"), desk.result("b"), desk.letters()) == (1, 1, [])


def test_mail_that_the_last_wait_takes_is_not_sent_on() -> None:
    """Under MOVE_TO_BROADCAST an event that was taken does not wake a second workflow."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(late_waiter(), "a")
    desk.start(waiter(), "b")
    desk.send(go, 1, to="a")
    desk.finish(desk.activities[0], 1)
    assert (desk.status("a"), desk.status("b")) == (WorkflowStatus.SUCCEEDED, WorkflowStatus.SUSPENDED)


@pytest.mark.parametrize(("expire_after", "status"), [
    (60, WorkflowStatus.SUSPENDED), (61, WorkflowStatus.SUCCEEDED),
])  # fmt: skip
def test_mail_that_has_expired_is_not_sent_on(expire_after: int, status: WorkflowStatus) -> None:
    """Under MOVE_TO_BROADCAST an event whose time is over when its workflow ends goes without a trace."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(waiter(), "taker")
    desk.start(sleeper(60))
    desk.send(Event[int]("go", expire_after=expire_after), 5, to="w")
    desk.advance(60)
    assert (desk.status("taker"), desk.letters(), desk.pending("go")) == (status, [], 0)


def test_mailbox_with_several_names_is_buried_whole() -> None:
    """A mailbox with several names loses nothing when its workflow ends."""
    desk = Desk(*EVERY, config=EngineConfig(max_pending_events=2))
    desk.start(sleeper())
    desk.send(go, 1, to="w")
    desk.send(other, 1, to="w")
    desk.advance(60)
    assert {letter.name for letter in desk.letters()} == {"go", "other"}


def test_lower_limit_loses_no_mail() -> None:
    """Mail that becomes untargeted is never refused for lack of room: it was accepted before."""
    policy = DeadLetterPolicy.MOVE_TO_BROADCAST
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=policy))
    desk.start(sleeper())
    for number in range(3):
        desk.send(go, number, to="w")
    desk.config = EngineConfig(dead_letter_policy=policy, max_pending_events=1)
    desk.restart(*EVERY)
    desk.advance(60)
    assert desk.pending("go") == 3
