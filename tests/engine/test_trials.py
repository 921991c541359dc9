"""Suspects that are woken by somebody else while they wait for their trial."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable import Durable, EngineConfig, gather, patched, sleep, workflow
from durable.clock import to_datetime
from durable.engine.operations import DescribeWorkflow
from durable.registry import Registry
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, go, work, worker


@workflow(name="trials.busy")
def busy() -> Durable[list[Any]]:
    """An activity, an event and a timer at once."""
    number, word, _ = yield from gather(work(7), go.wait(), sleep(60))
    return [number, word]


@workflow(name="trials.dozing")
def dozing() -> Durable[str]:
    """An event and a timer at once; then another event."""
    yield from gather(go.wait(), sleep(60))
    yield from go.wait()
    return "done"


FLOWS = (busy, dozing, *EVERY)


def _suspected(config: EngineConfig, *, seconds: float = 0) -> Desk:
    """Two suspects: the first stands trial, the second waits for its own."""
    desk = Desk(*FLOWS, config=config)
    desk.start(worker(), "first")
    desk.start(busy(), "w")
    desk.restart(*FLOWS, clean=False)
    desk.clock.advance(seconds)
    desk.restart(*FLOWS, clean=False)
    assert [desk.record(id).crashes for id in ("first", "w")] == [2, 1]
    assert [effect.workflow_id for effect in desk.activities] == ["first"]
    return desk


def _acquit_first(desk: Desk) -> None:
    """The first suspect makes progress, so the next trial may begin."""
    (first,) = [effect for effect in desk.activities if effect.workflow_id == "first"]
    desk.finish(first, 1)
    desk.settle()
    assert desk.state.trials.waiting == {}


CONFIGS = pytest.mark.parametrize(
    "config", [EngineConfig(), EngineConfig(max_loaded_workflows=1)], ids=["loaded", "evicted"]
)


@CONFIGS
@pytest.mark.parametrize("seconds", [0, 120], ids=["", "with an overdue timer"])
def test_who_makes_progress_before_the_trial_is_not_blamed(config: EngineConfig, seconds: float) -> None:
    """An event that is taken while the suspect waits acquits it: it is not tried, and its timer is not forgotten."""
    desk = _suspected(config, seconds=seconds)
    desk.send(go, 5, to="w")
    desk.start(worker(), "other")
    assert desk.record().crashes == 0
    _acquit_first(desk)
    assert (desk.record().crashes, desk.state.trials.current) == (0, None)
    desk.advance(60)
    (mine,) = [effect for effect in desk.activities if effect.workflow_id == "w"]
    desk.finish(mine, 7)
    assert desk.result() == [7, 5]


def test_who_is_only_looked_at_is_tried() -> None:
    """A suspect that was loaded without making progress stands trial like any other."""
    desk = _suspected(EngineConfig())
    desk.do(DescribeWorkflow("w"))
    assert desk.record().crashes == 1
    _acquit_first(desk)
    assert (desk.record().crashes, desk.state.trials.current) == (2, desk.record().key)


def test_who_waits_because_of_another_is_not_blamed_after_progress() -> None:
    """One without a crash, whose overdue timer had to wait for the trial of another, is not blamed either."""
    desk = Desk(*FLOWS)
    desk.start(worker(), "first")
    desk.start(dozing(), "w")
    desk.restart(*FLOWS, clean=False)
    desk.clock.advance(120)
    desk.restart(*FLOWS, clean=False)
    key = desk.record().key
    assert (desk.record().crashes, list(desk.state.trials.waiting)) == (0, [key])
    desk.send(go, 5, to="w")
    _acquit_first(desk)
    assert (desk.record().crashes, desk.state.trials.current) == (0, None)
    desk.send(go, 6, to="w")
    assert desk.result() == "done"


def test_an_answer_of_patched_is_no_progress() -> None:
    """A suspect that was only looked at is tried, also if looking has recorded that it keeps to its old code."""
    desk = _suspected(EngineConfig())

    @workflow(name="trials.busy")
    def changed() -> Durable[Any]:
        """The same, but for what it asks beforehand."""
        assert not patched("change")
        return (yield from busy.fn())

    desk.state.registry = Registry([changed, *EVERY])
    desk.do(DescribeWorkflow("w"))
    assert [entry.name for entry in desk.history()] == ["change"]
    _acquit_first(desk)
    assert (desk.record().crashes, desk.state.trials.current) == (2, desk.record().key)


def test_who_began_after_the_start_is_not_blamed_by_a_clock_that_was_set_back() -> None:
    """A delayed workflow did not cause the stop before it, though its time lies before that of the start."""
    desk = Desk(*FLOWS)
    desk.restart(*FLOWS, clean=False)
    desk.clock.set(to_datetime(desk.clock.now()) - timedelta(seconds=60))
    desk.start(dozing(), "w", delay=10)
    desk.advance(20)
    assert desk.record().crashes == 0
