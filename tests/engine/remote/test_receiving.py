"""Operations from another process: checked as the façade checks its callers, and decided like any other."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from durable import (
    Codec,
    CodecError,
    Durable,
    DurableError,
    Event,
    EventTypeMismatch,
    InvalidValue,
    NotSupported,
    Queued,
    UnknownWorkflow,
    WorkflowAlreadyExists,
    __version__,
    pause,
    workflow,
)
from durable.engine.operations import CreateSchedule, StartWorkflow
from durable.engine.remote import wire
from durable.engine.remote.receiving import receive
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from tests.engine.agenda import row, schedule_of
from tests.engine.direct import DirectEngine, call_of, event_of
from tests.engine.flows import work


@attrs.frozen
class Order:
    """An argument with fields."""

    sku: str
    count: int = 1


paid = Event[Order]("remote.paid")


@workflow(name="remote.checkout", version=3)
def checkout(order: Order, note: str = "none") -> Durable[list[Any]]:
    """Does a step, asks a question and waits for an event."""
    first = yield from work(order.count)
    answer = yield from pause(returns=Order, prompt=note)
    last = yield from paid.wait()
    return [first, answer.sku, last.sku]


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (checkout,)
REGISTRY: Registry[WorkflowDef[Any, Any]] = Registry(FLOWS)


def sent(name: str, /, **fields: Any) -> Any:
    """The operation that the engine receives when a client without the code sends this text."""
    line = wire.write_text({"operation": name, "fields": fields})
    return receive(wire.read_text(line), REGISTRY, Codec())


def refused(name: str, /, **fields: Any) -> DurableError:
    """Why the operation is refused."""
    with pytest.raises(DurableError) as caught:
        sent(name, **fields)
    return caught.value


START: dict[str, Any] = {"id": "w", "name": "remote.checkout", "version": 3, "input": '{"order": {"sku": "x"}}'}


def test_a_run_is_driven_from_outside() -> None:
    """A run that is started, repaired, answered and sent to by text alone ends as it does for callers with the code."""
    engine = DirectEngine(*FLOWS)
    engine.do(sent("start_workflow", **START))
    engine.finish(engine.activities[0], 5)
    engine.do(sent("repair_workflow", id="w", position="0", value=" 7 ", reason="wrong"))
    engine.do(sent("resume_pause", workflow_id="w", pause_id="1", answer='{"count": 2, "sku": "y"}'))
    engine.do(sent("send_event", name="remote.paid", payload='{"sku":"z"}', to="w"))
    assert engine.result() == [7, "y", "z"]


def test_a_start_from_outside_is_the_same_as_one_from_here() -> None:
    """Arguments are stored with their defaults, so the same call from inside and outside is one workflow."""
    engine = DirectEngine(*FLOWS)
    first = engine.do(sent("start_workflow", **START))
    assert first.input == '{"order":{"sku":"x","count":1},"note":"none"}'
    assert engine.do(call_of(checkout(Order("x")), "w")) == first
    with pytest.raises(WorkflowAlreadyExists, match="note"):
        engine.do(sent("start_workflow", **START | {"input": '{"order": {"sku": "x"}, "note": "more"}'}))


def test_a_start_needs_the_code_only_once() -> None:
    """If the code is registered, an operation that does not carry it is decided anyway."""
    engine = DirectEngine(*FLOWS)
    start = attrs.evolve(sent("start_workflow", **START), definition=None, arguments=None)
    assert isinstance(start, StartWorkflow)
    assert engine.do(start).version == 3
    schedule = attrs.evolve(schedule_of(checkout(Order("x"))), definition=None)
    assert engine.do(schedule).job.workflow == "remote.checkout"


def test_a_schedule_from_outside_is_the_same_as_one_from_here() -> None:
    """The arguments and the plan of a schedule are brought into their stored form."""
    engine = DirectEngine(*FLOWS)
    form = wire.write_operation(schedule_of(checkout(Order("x")), every=60))
    form["fields"]["job"]["input"] = START["input"]
    engine.do(receive(form, REGISTRY, Codec()))
    stored = row(engine.backend)
    assert engine.do(schedule_of(checkout(Order("x")), every=60)) == stored
    assert stored.job.plan.every == 60_000_000


def test_an_event_that_nobody_can_read_is_refused_by_the_name_of_its_type() -> None:
    """The sender learns that its type does not fit. Without a type the event is accepted, and becomes a dead letter."""
    engine = DirectEngine(*FLOWS)
    engine.start(checkout(Order("x")))
    engine.finish(engine.activities[0], 5)
    engine.do(sent("resume_pause", workflow_id="w", pause_id="1", answer='{"sku": "y"}'))
    form = wire.write_operation(event_of(Event[int]("remote.paid"), 5, to="w"))
    form["fields"]["payload_type"] = "shop.Price"
    with pytest.raises(EventTypeMismatch, match=r"sent as shop\.Price"):
        engine.do(receive(form, REGISTRY, Codec()))
    assert engine.do(sent("send_event", name="remote.paid", payload="5", to="w")) == Queued()
    assert [letter.payload for letter in engine.letters()] == [5]


def test_an_unknown_operation_is_not_supported() -> None:
    """An unknown operation is refused with the engine's version, whatever its fields are."""
    error = refused("drop_table", id="w")
    assert (type(error), error.args) == (NotSupported, ("drop_table", __version__))
    with pytest.raises(NotSupported):
        receive({"operation": ["start_workflow"], "fields": START}, REGISTRY, Codec())
    # Operations that only the engine asks of itself have no name on the wire.
    assert isinstance(refused("wake_workflow", key=1), NotSupported)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"fields":{}}', '{"operation":"find_workflow"}', b"\xff"])
def test_what_is_not_a_form_is_refused(text: str | bytes) -> None:
    """Text that is not JSON, JSON that is not an object, and an object that lacks a part are refused."""
    with pytest.raises(CodecError, match=r"^wire: "):
        receive(wire.read_text(text), REGISTRY, Codec())


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("find_workflow", {"id": 5}, "expected str, got 5 (int) @ find_workflow.id"),
    ("find_workflow", {}, "the field 'id' is missing @ find_workflow.id"),
    ("start_workflow", START | {"tags": "eu"}, "expected an array, got 'eu' @ start_workflow.tags"),
    ("start_workflow", START | {"delay": True}, "expected int, got True (bool) @ start_workflow.delay"),
    ("remove_event", {"event_id": 1 << 64}, "does not fit into 64 bits @ remove_event.event_id"),
    ("count_workflows", {"query": {"limit": 1, "statuses": ["late"]}}, "'late' is not a valid WorkflowStatus"),
    ("count_workflows", {"query": 5}, "@ count_workflows.query"),
    ("send_event", {"name": "a", "payload": "5", "payload_type": 5}, "expected str, got 5 (int) @ send_event"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "problem"), WRONG)
def test_a_field_of_another_type_is_refused(name: str, fields: dict[str, Any], problem: str) -> None:
    """The error names the field, the expected type and the value."""
    error = refused(name, **fields)
    assert isinstance(error, CodecError)
    assert problem in error.problem


JOB: dict[str, Any] = {"plan": {"cron": "0 3 * * *"}, "workflow": "remote.checkout", "version": 3, "input": "{}"}
PLANLESS = JOB | {"input": START["input"]}
INVALID: tuple[tuple[str, dict[str, Any], type[DurableError], str], ...] = (
    ("find_workflow", {"id": ""}, InvalidValue, "id: must not be empty"),
    ("find_workflow", {"id": "a\0b"}, InvalidValue, "NUL"),
    ("cancel_workflow", {"id": "w", "reason": "x" * 1001}, InvalidValue, "the limit is 1000"),
    ("start_workflow", START | {"tags": [""]}, InvalidValue, "tags: must not be empty"),
    ("start_workflow", START | {"delay": -1}, InvalidValue, "delay: must not be negative"),
    ("start_workflow", START | {"version": 4}, UnknownWorkflow, "version 4"),
    ("start_workflow", START | {"input": "{}"}, CodecError, "parameter 'order' has no default"),
    ("start_workflow", START | {"input": '{"order":{"sku":5}}'}, CodecError, "parameter 'order'"),
    ("list_events", {"after": 0, "limit": 1001}, InvalidValue, "limit: must be 1 to 1000, not 1001"),
    ("count_workflows", {"query": {"limit": 0}}, InvalidValue, "limit: must be 1 to 1000, not 0"),
    ("send_event", {"name": "a", "payload": "{"}, CodecError, "event a: payload: the given text"),
    ("send_event", {"name": "a", "payload": "5", "expire_after": -5}, InvalidValue, "expire_after"),
    ("create_schedule", {"name": "s" * 201, "job": JOB}, InvalidValue, "the limit is 200"),
    ("create_schedule", {"name": "s", "job": JOB}, CodecError, "parameter 'order' has no default"),
    ("create_schedule", {"name": "s", "job": PLANLESS | {"plan": {"cron": "x"}}}, InvalidValue, "not a cron"),
    ("create_schedule", {"name": "s", "job": PLANLESS | {"plan": {}}}, InvalidValue, "pass either cron= or every="),
    ("create_schedule", {"name": "s", "job": PLANLESS | {"plan": {"every": 5}}}, InvalidValue, "at least one second"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "fields", "kind", "problem"), INVALID)
def test_what_the_facade_would_refuse_is_refused(
    name: str, fields: dict[str, Any], kind: type[DurableError], problem: str
) -> None:
    """A client that does not check its own calls gets no further than one that does."""
    error = refused(name, **fields)
    assert type(error) is kind
    assert problem in str(error)


def test_no_code_travels() -> None:
    """The code stays in its process; the name and version are sent instead."""
    for operation in (call_of(checkout(Order("x")), "w"), schedule_of(checkout(Order("x")))):
        assert isinstance(operation, StartWorkflow | CreateSchedule)
        assert operation.definition is checkout
        text = wire.write_text(wire.write_operation(operation))
        assert not {"definition", "arguments"} & json.loads(text)["fields"].keys()
        received = receive(wire.read_text(text), REGISTRY, Codec())
        assert received == operation
        assert isinstance(received, StartWorkflow | CreateSchedule)
        assert received.definition is checkout
