"""Requests that clients kept while no engine ran: decided when one opens, before timers and calls."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from durable import CodecError, DeadLetterReason, StorageUnavailable, UnknownWorkflow, WorkflowStatus
from durable.backends.base import Batch, KeptRequests, Letters, Workflows
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, FindWorkflow, ListWorkflows, Operation, SendEvent, StartWorkflow
from durable.engine.remote import wire
from durable.model.clock import SECOND
from durable.model.error_codec import unpack_error
from durable.model.requests import KeptRequest
from durable.testing.clock import ManualClock
from tests.engine.direct import call_of, event_of
from tests.engine.flows import go, patient, sleeper, waiter
from tests.engine.stepped import SteppedEngine


def keep(store: MemoryStore, clock: ManualClock, *requests: Operation[Any] | str) -> None:
    """Store requests as a client does while no engine runs; a text is stored as it is."""
    backend = MemoryBackend(store)
    opened = backend.open("client")
    kept: dict[int, KeptRequest] = {}
    for number, request in enumerate(requests, start=1):
        text = request if isinstance(request, str) else wire.write_text(wire.write_operation(request))
        kept[number] = KeptRequest(number=number, request_id=f"r{number}", operation=text, at=clock.now())
    backend.commit(Batch(number=1, kept_put=kept, clean_stop=opened.clean))
    backend.close()


def opened(*requests: Operation[Any] | str, after: float = 0, max_batch: int = 1000) -> SteppedEngine:
    """An engine that opens some seconds after these requests were kept."""
    store, clock = MemoryStore(), ManualClock()
    keep(store, clock, *requests)
    clock.advance(after)
    engine = SteppedEngine(store=store, clock=clock, config=EngineConfig(max_batch=max_batch))
    engine.settle()
    return engine


def find(engine: SteppedEngine, id: str) -> Any:
    """The record of a workflow."""
    return engine.ask(FindWorkflow(id))[0].reply


def test_kept_requests_are_decided_in_order() -> None:
    """An event for a workflow whose start was kept before it reaches that workflow. Then nothing is kept any more."""
    engine = opened(call_of(waiter(), "w"), event_of(go, 7, to="w"))
    assert (find(engine, "w").status, find(engine, "w").result) == (WorkflowStatus.SUCCEEDED, "7")
    assert not engine.backend.find(KeptRequests(limit=9))


def test_all_kept_requests_are_decided_before_the_first_call() -> None:
    """Also if they need several commits."""
    store, clock = MemoryStore(), ManualClock()
    keep(store, clock, *[call_of(waiter(), f"w{number}") for number in range(7)])
    engine = SteppedEngine(store=store, clock=clock, config=EngineConfig(max_batch=3))
    listing = engine.letter(ListWorkflows(Workflows(limit=99)))
    engine.coordinator.submit(listing)
    engine.settle()
    assert len(listing.reply) == 7


def test_event_that_was_kept_comes_before_a_deadline_that_passed() -> None:
    """It was accepted before the deadline, so it is taken, although both are decided when the engine opens."""
    store, clock = MemoryStore(), ManualClock()
    first = SteppedEngine(store=store, clock=clock)
    first.ask(call_of(patient(), "w"))
    first.run()
    keep(store, clock, event_of(go, 7, to="w"), event_of(go, 8, to="w"))
    clock.advance(10_000)
    engine = SteppedEngine(store=store, clock=clock)
    engine.settle()
    assert find(engine, "w").result == "[7,8]"


def test_times_count_from_when_the_request_was_kept() -> None:
    """The delay of a start, and the expiry of an event."""
    expiring = SendEvent(name=go.name, payload="7", expire_after=60 * SECOND)
    engine = opened(call_of(sleeper(), "w", delay=100), expiring, call_of(waiter(), "late"), after=70)
    record = find(engine, "w")
    assert (record.status, record.start_at - record.created_at) == (WorkflowStatus.SUSPENDED, 100 * SECOND)
    assert record.wake_at - engine.clock.now() == 30 * SECOND
    assert find(engine, "late").status is WorkflowStatus.SUSPENDED


_TAKEN = "workflow 'w' already exists"
REFUSED: dict[str, tuple[StartWorkflow, type[Exception]]] = {
    "unknown workflow": (StartWorkflow(id="w", name="engine.gone", input="{}"), UnknownWorkflow),
    "arguments that do not fit": (StartWorkflow(id="w", name="engine.sleeper", input='{"colour":1}'), CodecError),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused_start_becomes_a_failed_workflow(why: str) -> None:
    """Under its id, with the error of the refusal. Events for it are dead letters."""
    start, error = REFUSED[why]
    engine = opened(start, event_of(go, 7, to="w"))
    record = find(engine, "w")
    assert record.status is WorkflowStatus.FAILED
    assert isinstance(unpack_error(record.error), error)
    (letter,) = engine.backend.find(Letters(limit=9))
    assert (letter.reason, letter.workflow_id) == (DeadLetterReason.REFUSED, "w")


def test_refused_start_whose_id_is_taken_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The workflow that has the id goes on; the log says what was refused."""
    with caplog.at_level(logging.WARNING, "durable"):
        engine = opened(call_of(sleeper(), "w"), call_of(waiter(), "w"))
    assert find(engine, "w").name == "engine.sleeper"
    assert f"kept while no engine ran is refused: StartWorkflow: {_TAKEN}" in caplog.text


def test_refused_event_becomes_a_dead_letter() -> None:
    """With the reason, so that an operator can send it to another workflow."""
    engine = opened(event_of(go, 7, to="nobody"))
    (letter,) = engine.backend.find(Letters(limit=9))
    assert (letter.reason, letter.workflow_id, letter.payload) == (DeadLetterReason.REFUSED, "nobody", 7)
    assert "nobody" in (letter.detail or "")


def test_request_that_cannot_be_read_stays(caplog: pytest.LogCaptureFixture) -> None:
    """A newer version may have written it. Those behind it are decided, and the next engine looks at it again."""
    strange = ["{", '{"operation":"from_the_future","fields":{}}']
    engine = opened(*strange, call_of(waiter(), "w"), max_batch=1)
    assert find(engine, "w").status is WorkflowStatus.SUSPENDED
    assert [kept.number for kept in engine.backend.find(KeptRequests(limit=9))] == [1, 2]
    assert caplog.text.count("cannot be read and is kept") == 2


def test_store_that_fails_refuses_nothing() -> None:
    """The engine ends, and the next one decides the request."""
    store, clock = MemoryStore(), ManualClock()
    keep(store, clock, call_of(waiter(), "w"))
    failing = SteppedEngine(store=store, clock=clock)
    failing.coordinator.work_off()
    # The next two calls read timers and the kept requests, the one after them belongs to the decision.
    failing.backend.fail_calls = {failing.backend.calls + 3}
    with pytest.raises(StorageUnavailable):
        failing.settle()
    engine = SteppedEngine(store=store, clock=clock)
    engine.settle()
    assert find(engine, "w").status is WorkflowStatus.SUSPENDED


def test_operation_that_no_client_keeps_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Only starts and events can wait for an engine."""
    engine = opened(call_of(patient(), "w"), CancelWorkflow("w"))
    assert not find(engine, "w").cancel_requested
    assert "CancelWorkflow" in caplog.text
    assert not engine.backend.find(KeptRequests(limit=9))
