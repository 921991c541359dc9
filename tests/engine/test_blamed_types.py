"""Who is blamed when a type kills the process while a value is read: the workflow that asked for that type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from durable import Durable, Event, ParkReason, WorkflowDef, pause, workflow
from durable.engine.operations import Operation, RecoverWorkflows, ResumePause
from durable.testing.faults import SimCrash
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import EVERY, waiter, work

_armed: list[bool] = []


@attrs.frozen
class Message:
    """Ends the process when it is created, if armed."""

    number: int

    def __attrs_post_init__(self) -> None:
        if _armed:
            raise SimCrash


message = Event[Message]("types.message")
number = Event[dict[str, int]]("types.message")


@workflow(name="types.hears")
def hears() -> Durable[int]:
    """Waits for a message."""
    return (yield from message.wait()).number


@workflow(name="types.asks")
def asks() -> Durable[int]:
    """Asks for a message in a pause."""
    return (yield from pause(returns=Message)).number


@workflow(name="types.takes")
def takes(first: Message) -> Durable[int]:
    """Takes a message as an argument."""
    return (yield from work(first.number))


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (hears, asks, takes, *EVERY)


@contextmanager
def _armed_types() -> Iterator[None]:
    _armed.append(True)
    try:
        yield
    finally:
        _armed.clear()


def _send() -> Operation[Any]:
    return event_of(message, Message(1), to="w")


def _send_as_another_type() -> Operation[Any]:
    return event_of(number, {"number": 1}, to="w", payload_type=dict[str, int])


def _answer() -> Operation[Any]:
    return ResumePause("w", "0", json.dumps({"number": 1}))


@pytest.mark.parametrize(
    ("call", "operation"),
    [(hears, _send), (hears, _send_as_another_type), (asks, _answer)],
    ids=["event", "event of another type", "answer"],
)
def test_value_that_kills_while_it_is_read_parks_its_workflow(
    call: WorkflowDef[[], int], operation: Callable[[], Operation[Any]]
) -> None:
    """The sender repeats after each crash. The third crash parks the workflow that reads the value, and nobody else."""
    engine = DirectEngine(*FLOWS)
    engine.start(waiter(), "bystander")
    engine.start(call())
    for crashes in (1, 2, 3):
        _die_of(engine, operation())
        assert engine.record().crashes == crashes
    assert engine.record().park_reason is ParkReason.CRASHED
    assert engine.record("bystander").crashes == 0


def test_argument_that_kills_while_it_is_read_parks_its_workflow() -> None:
    """A workflow that cannot be loaded without killing the process is parked at the third crash."""
    engine = DirectEngine(*FLOWS)
    engine.start(takes(Message(1)))
    engine.restart(*FLOWS, recover=False)
    for crashes in (1, 2, 3):
        _die_of(engine, RecoverWorkflows())
        assert engine.record().crashes == crashes
    assert engine.record().park_reason is ParkReason.CRASHED


def _die_of(engine: DirectEngine, operation: Operation[Any]) -> None:
    with _armed_types(), pytest.raises(SimCrash):
        engine.do(operation)
    engine.restart(*FLOWS, clean=False, recover=False)
