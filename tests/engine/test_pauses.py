"""Pauses as decisions: listed with their wait, answered once, and refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CodecError,
    Durable,
    EngineConfig,
    OpenPause,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    PayloadTooLarge,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    pause,
    workflow,
)
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.operations import CancelPause, DescribeWorkflow, ResumePause
from durable.model.clock import to_datetime
from durable.model.records import HistoryEntry
from tests.engine.asking import FLOWS, TIGHT, asker, crowd, ids, loser, pauses, reply, resume, rounds
from tests.engine.direct import DirectEngine, refusal
from tests.engine.flows import go, nothing


def test_a_pause_is_listed_in_the_commit_that_waits_for_it() -> None:
    """The commit in which the workflow begins to wait holds the question, its expiry and the next wake-up."""
    engine = DirectEngine(*FLOWS)
    record = engine.start(asker(1, expires_after=60))
    now = engine.clock.now()
    assert pauses(engine) == [
        OpenPause(
            number=2, workflow_id="w", name="pauses.asker", status=WorkflowStatus.SUSPENDED, pause_id="0",
            prompt="number 0?", expects="int", since_us=now, expires_at_us=now + 60_000_000,
        )
    ]  # fmt: skip
    assert pauses(engine)[0].since == to_datetime(engine.clock.now())
    assert engine.record().wake_at == now + 60_000_000
    assert (engine.waits()[0].workflow_key, engine.history()) == (record.key, [])


def test_pauses_in_a_row() -> None:
    """Each answer opens the next pause in the same commit, at its own position."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(3))
    for number in range(3):
        assert [(listed.pause_id, listed.prompt) for listed in pauses(engine)] == [(str(number), f"number {number}?")]
        assert resume(engine, str(number), number * 10) is None
    assert engine.result() == [0, 10, 20]
    assert pauses(engine) == []


@pytest.mark.parametrize("config", [EngineConfig(), TIGHT], ids=["loaded", "rebuilt"])
@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_open_pauses_are_answered_in_any_order(order: str, config: EngineConfig) -> None:
    """Each answer reaches its pause, in whatever order answers arrive, even if the body is not in memory."""
    engine = DirectEngine(*FLOWS, config=config)
    engine.start(crowd())
    engine.start(asker(), "other")
    places = {listed.prompt: listed.pause_id for listed in pauses(engine, workflow_id="w")}
    for letter in order:
        assert resume(engine, places.pop(letter), ord(letter)) is None
        assert ids(engine, workflow_id="w") == list(places.values())
    engine.advance(60)
    assert engine.result() == [97, 98, 99]
    assert ids(engine) == ["0"]


def test_list_is_filtered_and_paged() -> None:
    """Pauses of all workflows, one workflow or one name are listed oldest first, in pages. An unknown id is refused."""
    engine = DirectEngine(*FLOWS)
    engine.start(crowd(), "a")
    engine.start(asker(), "b")
    engine.start(asker(), "c")
    assert [listed.workflow_id for listed in pauses(engine)] == ["a", "a", "a", "b", "c"]
    assert [listed.workflow_id for listed in pauses(engine, name="pauses.asker")] == ["b", "c"]
    page = pauses(engine, limit=2)
    assert [listed.prompt for listed in page] == ["a", "b"]
    assert [listed.prompt for listed in pauses(engine, limit=2, after=page[-1].number)] == ["c", "number 0?"]
    with pytest.raises(WorkflowNotFound):
        pauses(engine, workflow_id="nobody")


def test_expiry_is_raised_in_the_body() -> None:
    """A pause expires at its deadline, not before. The body is told, and so are later answers."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(2, expires_after=60))
    engine.advance(59)
    assert ids(engine) == ["0"]
    engine.advance(1)
    assert ids(engine) == ["1"]
    assert resume(engine, "0", 1) == (PauseExpired, "w", "0")
    assert resume(engine, "1", 1) is None
    assert engine.result() == [str(PauseExpired("w", "0")), 1]
    assert resume(engine, "0", 1) == (PauseExpired, "w", "0")


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_changes_no_pause(clean: bool) -> None:
    """After a restart a pause keeps its number, its opening time and its expiry."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(2, expires_after=60))
    before = pauses(engine)
    engine.advance(30)
    engine.restart(*FLOWS, clean=clean)
    assert pauses(engine) == before
    assert not engine.state.loaded, "nobody was loaded for the list"
    engine.advance(30)
    assert [listed.pause_id for listed in pauses(engine)] == ["1"]
    engine.clock.advance(70)
    engine.restart(*FLOWS, clean=clean)
    assert engine.result() == [str(PauseExpired("w", "0")), str(PauseExpired("w", "1"))]


def test_cancelling_a_pause() -> None:
    """`PauseCancelled` with its reason is raised in the body, and refuses later answers."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(2))
    assert reply(engine, CancelPause("w", "0", "asked in error")) is None
    gone = (PauseCancelled, "w", "0", "asked in error")
    assert resume(engine, "0", 1) == refusal(reply(engine, CancelPause("w", "0"))) == gone
    assert reply(engine, CancelPause("w", "1")) is None
    assert engine.result() == [str(PauseCancelled("w", "0", "asked in error")), str(PauseCancelled("w", "1"))]


def test_the_first_answer_stands() -> None:
    """A second answer is refused, even if it is the same, and even if the first has ended the workflow."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(2))
    resume(engine, "0", 1)
    for answer in (1, 2):
        assert resume(engine, "0", answer) == (PauseAlreadyAnswered, "w", "0")
    resume(engine, "1", 2)
    assert resume(engine, "1", 2) == (PauseAlreadyAnswered, "w", "1")
    assert refusal(reply(engine, CancelPause("w", "1"))) == (PauseAlreadyAnswered, "w", "1")
    assert engine.result() == [1, 2]


def test_refusals_of_what_was_never_asked() -> None:
    """An unknown workflow, an ended workflow and an unknown pause get different refusals, and nothing is written."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker())
    engine.start(nothing(), "done")
    rows = engine.rows()
    assert resume(engine, "0", 1, id="nobody") == (WorkflowNotFound, "nobody")
    assert resume(engine, "0", 1, id="done") == (WorkflowTerminated, "done", "succeeded")
    assert resume(engine, "1", 1) == (PauseNotFound, "w", "1")
    assert (engine.rows(), ids(engine)) == (rows, ["0"])


@pytest.mark.parametrize("answer", ['"5"', "null", "5.5", "{}", "no json", f'"{"x" * 5000}"'])
def test_an_answer_that_does_not_fit(answer: str) -> None:
    """An answer of the wrong type is refused before anything is written, and the pause stays open."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_payload_bytes=4096))
    engine.start(asker())
    before = (engine.rows(), pauses(engine), engine.record())
    refused = reply(engine, ResumePause("w", "0", answer))
    assert isinstance(refused, PayloadTooLarge if len(answer) > 4096 else CodecError)
    assert "pause: answer" in str(refused)
    assert (engine.rows(), pauses(engine), engine.record()) == before
    assert resume(engine, "0", 5) is None
    assert engine.result() == [5]


@pytest.mark.parametrize("is_loaded", [True, False])
def test_an_answer_of_another_class_is_refused(is_loaded: bool) -> None:
    """An answer whose JSON fits but whose class does not is refused, and changes neither store nor memory."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker())
    if not is_loaded:
        engine.restart(*FLOWS)
    before = (engine.rows(), pauses(engine), engine.record(), list(engine.state.loaded))
    refused = reply(engine, ResumePause("w", "0", "5", "Color"))
    assert isinstance(refused, CodecError)
    assert (refused.where, "expected int, got 5 (Color)" in refused.problem) == ("pause: answer", True)
    assert (engine.rows(), pauses(engine), engine.record(), list(engine.state.loaded)) == before
    assert reply(engine, ResumePause("w", "0", "5", "int")) is None
    assert engine.result() == [5]


def test_an_answer_is_stored_in_the_form_of_its_type() -> None:
    """An answer is stored in the form of the type that the pause asks for, however it was written."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker())
    assert reply(engine, ResumePause("w", "0", " true ")) is None
    assert [entry.outcome for entry in engine.history()] == ["1"]


def test_a_prompt_that_is_too_large_fails_the_body() -> None:
    """A prompt that is too large raises in the body and is never listed, and a replay raises it again."""

    @workflow(name="pauses.verbose")
    def verbose() -> Durable[list[Any]]:
        try:
            yield from pause(returns=int, prompt="x" * 5000)
        except PayloadTooLarge as error:
            return [error.where, (yield from pause(returns=int, prompt="short"))]
        return []

    engine = DirectEngine(verbose, config=EngineConfig(max_payload_bytes=4096))
    engine.start(verbose())
    assert [listed.prompt for listed in pauses(engine)] == ["short"]
    engine.restart(verbose)
    assert resume(engine, "0", 1) == (PauseNotFound, "w", "0")
    assert resume(engine, "1", 1) is None
    assert engine.result() == ["pause: prompt", 1]


def test_a_pause_of_a_losing_branch_is_withdrawn() -> None:
    """The commit in which a branch loses withdraws its pause, and later answers find nothing."""
    engine = DirectEngine(*FLOWS)
    engine.start(loser())
    assert ids(engine) == ["0.person.0"]
    engine.send(go, 1, to="w")
    assert (ids(engine), engine.waits()) == ([], [])
    assert resume(engine, "0.person.0", 1) == (PauseNotFound, "w", "0.person.0")


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("how", [ops.CancelWorkflow, ops.TerminateWorkflow])
def test_the_end_of_a_workflow_withdraws_its_pauses(how: Any, is_loaded: bool) -> None:
    """When a workflow is cancelled or terminated, its pauses are withdrawn, and answers are told of the end."""
    engine = DirectEngine(*FLOWS)
    engine.start(crowd())
    if not is_loaded:
        engine.restart(*FLOWS)
    assert engine.do(how("w")) is True
    assert ids(engine) == []
    assert resume(engine, "0.0.0", 1) == (WorkflowTerminated, "w", "cancelled")


def test_rounds_have_pauses_of_their_own() -> None:
    """After `continue_as`, the round's number is part of the pause id, so an old id never means a new pause."""
    engine = DirectEngine(*FLOWS)
    engine.start(rounds(2))
    for round, id in enumerate(["0", "1:0", "2:0"]):
        engine.settle()
        assert [(listed.pause_id, listed.prompt) for listed in pauses(engine)] == [(id, 2 - round)]
        assert resume(engine, id, round) is None
    assert engine.result() == 2
    engine.start(rounds(1), "v")
    resume(engine, "0", 1, id="v")
    # The next round has not begun yet.
    assert resume(engine, "1:0", 1, id="v") == (PauseNotFound, "v", "1:0")
    engine.settle()
    assert resume(engine, "0", 1, id="v") == (PauseNotFound, "v", "0")
    assert resume(engine, "1:0", 1, id="v") is None


def test_a_delayed_workflow_is_not_started_by_an_answer() -> None:
    """An answer to a delayed workflow finds no pause, and does not start the workflow."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(1, expires_after=60), delay=60)
    assert resume(engine, "0", 1) == (PauseNotFound, "w", "0")
    assert not engine.state.loaded
    engine.advance(1000)
    assert engine.result() == [str(PauseExpired("w", "0"))]


def test_describe_shows_a_pause() -> None:
    """A description shows the pause, when it opened, when it expires, and its source line."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(1, expires_after=60))
    (wait,) = engine.do(DescribeWorkflow("w")).waits
    assert (wait.position, wait.kind, wait.name, wait.since) == ("0", "pause", "pause", to_datetime(engine.clock.now()))
    assert wait.until == pauses(engine)[0].expires_at
    assert "asking.py:" in (wait.source or "")


def test_a_parent_is_told_of_a_child_that_an_answer_ended() -> None:
    """The answer, the child's end and the parent's result are one commit."""

    @workflow(name="pauses.parent")
    def parent() -> Durable[list[Any]]:
        return (yield from asker())

    engine = DirectEngine(parent, *FLOWS)
    engine.start(parent())
    engine.restart(parent, *FLOWS)
    before = engine.commits
    assert resume(engine, "0", 5, id="w/0") is None
    assert (engine.result(), engine.commits) == ([5], before + 1)


def test_a_damaged_entry_refuses_the_answer() -> None:
    """A stored outcome that is unreadable refuses the answer, and affects nothing else."""
    store = MemoryStore()
    engine = DirectEngine(*FLOWS, make=lambda: MemoryBackend(store))
    record = engine.start(asker(2))
    reply(engine, CancelPause("w", "0"))
    entry = store.history[record.key][1]
    store.history[record.key][1] = HistoryEntry(*entry[:5], "broken", *entry[6:])
    assert resume(engine, "0", 1)[:2] == (CodecError, "stored error")
    assert ids(engine) == ["1"]
