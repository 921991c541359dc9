"""Decisions: who asks for the end of a parked workflow gets that as an answer, or waits."""

from __future__ import annotations

from durable.engine.decide.queries import Pending
from durable.engine.operations import AwaitEnd, Parked
from durable.model.records import WorkflowStatus
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, worker


def test_parked_workflow_is_an_answer_only_for_those_who_want_it() -> None:
    """The record of a parked workflow answers who does not wait for parked ones; the others get a promise."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.restart()
    assert desk.status() is WorkflowStatus.PARKED
    assert Parked(desk.record()) in desk.effects
    assert desk.do(AwaitEnd("w", wait_if_parked=False)) == desk.record()
    assert desk.batch(AwaitEnd("w")) == [Pending(desk.record().key)]
