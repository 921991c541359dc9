"""Who is blamed for a crash while a body ran: the workflow of that body."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    Continue,
    Durable,
    EngineConfig,
    Event,
    ParkReason,
    WorkflowDef,
    WorkflowStatus,
    loop,
    race,
    sleep,
    spawn,
    workflow,
)
from durable.engine.operations import RecoverWorkflows, TerminateWorkflow
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.workflows import Unwatched
from durable.model.records import WorkflowRecord
from durable.runner.session import WorkflowSessionRunner
from durable.testing.faults import SimCrash
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, nothing, waiter, worker

fuse = Event[int]("blamed.fuse")


@workflow(name="blamed.bomb")
def bomb() -> Durable[int]:
    """Waits for the event that kills the process."""
    return (yield from fuse.wait())


@workflow(name="blamed.parent")
def parent(waits_first: bool = False) -> Durable[int]:
    """Waits for a harmless child."""
    if waits_first:
        yield from fuse.wait()
    return (yield from worker().with_id("child"))


@workflow(name="blamed.spawning")
def spawning() -> Durable[int]:
    """Spawns a child and waits for its result."""
    yield from fuse.wait()
    return (yield from (yield from spawn(worker(), id="child")).result())


@workflow(name="blamed.lighter")
def lighter(to: str) -> Durable[str]:
    """Passes an event on to another workflow."""
    yield from fuse.send((yield from fuse.wait()), to=to)
    return "sent"


@workflow(name="blamed.ticker")
def ticker() -> Durable[None]:
    """Waits for the event that kills the process, and wakes up every second meanwhile."""
    yield from race(ticks=loop(_tick, 0, keep=0), heard=fuse.wait())


def _tick(number: int) -> Durable[Continue[int]]:
    yield from sleep(1)
    return Continue(number + 1)


@workflow(name="blamed.listener")
def listener() -> Durable[None]:
    """Takes events in a row."""
    while True:
        yield from fuse.wait()


@workflow(name="blamed.rounds")
def rounds() -> Durable[None]:
    """Takes one event per round."""
    yield from fuse.wait()
    raise rounds.continue_as()


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (bomb, lighter, parent, spawning, ticker, listener, rounds, *EVERY)


class Killer(Unwatched):
    """Ends the process when the body of a workflow runs or, with `fed`, when it is fed an entry."""

    def __init__(self, *ids: str, fed: bool = False) -> None:
        self.ids = ids
        self.fed = fed

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """The body is about to run."""
        if record.id in self.ids and not (self.fed and session.interpreter.stepped is None):
            raise SimCrash


def _start_and_recover(engine: DirectEngine) -> None:
    """What a service does when its start got no answer."""
    engine.start(worker())
    engine.recover()


def _send_and_recover(engine: DirectEngine) -> None:
    """What a service does when its event got no answer."""
    engine.send(fuse, 1, to="w")
    engine.recover()


def _parked(engine: DirectEngine) -> list[str]:
    return [id for id in engine.ids() if engine.status(id) is WorkflowStatus.PARKED]


def _waiting(engine: DirectEngine) -> list[str]:
    return [effect.workflow_id for effect in engine.activities]


def test_body_that_dies_of_an_event_is_parked_at_the_third_crash() -> None:
    """The event is sent again after each crash. The third crash parks the workflow, and the event can still be sent."""
    engine = DirectEngine(*FLOWS)
    engine.start(bomb())
    for crashes in (1, 2, 3):
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            engine.send(fuse, 1, to="w")
        assert engine.status() is WorkflowStatus.SUSPENDED
        engine.restart(*FLOWS, clean=False)
        assert engine.record().crashes == crashes if crashes < 3 else engine.record().park_reason is ParkReason.CRASHED
    assert "3 times in a row while its body ran" in (engine.record().park_detail or "")
    engine.send(fuse, 1, to="w")
    assert engine.restart(*FLOWS, clean=False) == RecoveryReport(parked=1)


def _die_of(engine: DirectEngine, payload: int) -> None:
    """The body dies of an event, and the process is started again."""
    engine.state.watch = Killer("w", fed=True)
    with pytest.raises(SimCrash):
        engine.send(fuse, payload, to="w")
    engine.restart(*FLOWS, clean=False)


@pytest.mark.parametrize("max_crashes", [1, 2, 3, 5])
def test_progress_beside_the_step_that_kills_clears_nothing(max_crashes: int) -> None:
    """Surviving other steps does not clear the count: a workflow wakes up every second and still dies of its event."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_crashes=max_crashes))
    engine.start(ticker())
    for crashes in range(1, max_crashes + 1):
        assert engine.record().crashes == crashes - 1
        engine.advance(3)
        _die_of(engine, 1)
    assert engine.record().park_reason is ParkReason.CRASHED


@pytest.mark.parametrize("flow", [listener, rounds], ids=["positions", "rounds"])
def test_event_that_kills_is_recognised_at_any_position(flow: WorkflowDef[[], None]) -> None:
    """A deadly event is recognised although a harmless event moves it to another position after each restart."""
    engine = DirectEngine(*FLOWS)
    engine.start(flow())
    for crashes in (1, 2, 3):
        assert engine.record().crashes == crashes - 1
        engine.send(fuse, 1, to="w")
        engine.settle()
        _die_of(engine, 2)
    assert engine.record().park_reason is ParkReason.CRASHED


def test_crashes_in_different_steps_do_not_add_up() -> None:
    """A busy workflow runs at many kills from outside, each in another step, which it survives after the restart."""
    engine = DirectEngine(*FLOWS)
    engine.start(listener())
    for number in range(10):
        _die_of(engine, 2 * number)
        assert engine.record().crashes == 1
        engine.send(fuse, 2 * number + 1, to="w")


@pytest.mark.parametrize("how", ["same answer", "code missing", "other places"])
def test_what_clears_the_count(how: str) -> None:
    """Only surviving the same event in the same place clears the count. Parking and other steps do not."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    _die_of(engine, 1)
    _die_of(engine, 1)
    if how == "same answer":
        engine.send(fuse, 1, to="w")
    elif how == "code missing":
        engine.advance(5)
        engine.restart(clean=False)
        engine.advance(5)
        engine.restart(*FLOWS, clean=False)
    else:
        engine.advance(5)
    assert engine.record().crashes == (0 if how == "same answer" else 2)


def test_clean_stop_between_crashes_clears_the_count() -> None:
    """Crashes while a body runs, each followed by a clean stop, park nobody."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    for _ in range(5):
        _die_of(engine, 1)
        assert engine.record().crashes == 1
        engine.restart(*FLOWS, clean=True)
        assert engine.record().crashes == 0


def test_clean_stop_without_code_keeps_the_count() -> None:
    """A script that opens the store without the code, and stops cleanly, does not clear the culprit's count."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    for crashes in (1, 2, 3):
        _die_of(engine, 1)
        assert engine.record().crashes == crashes
        engine.restart(clean=False)
        engine.restart(*FLOWS, clean=True)
    assert engine.record().park_reason is ParkReason.CRASHED


def test_rebuilding_that_is_survived_clears_the_count() -> None:
    """Crashes during the replay of a long history, each followed by a replay that succeeds, park nobody."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    for _ in range(5):
        engine.advance(2)
        engine.restart(*FLOWS, clean=False)
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            engine.advance(2)
        engine.restart(*FLOWS, clean=False, recover=False)
        assert engine.record().crashes == 1
        engine.recover()
        assert engine.record().crashes == 0


def test_kill_during_a_replay_does_not_hide_the_culprit() -> None:
    """The process is killed while the culprit is loaded. Surviving the next load does not clear its earlier crash."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    _die_of(engine, 1)
    engine.state.watch = Killer("w")
    with pytest.raises(SimCrash):
        engine.advance(2)
    engine.restart(*FLOWS, clean=False, recover=False)
    assert engine.record().crashes == 2
    engine.advance(2)
    assert engine.record().crashes == 1


def test_clean_stop_leaves_parked_and_ended_workflows_alone() -> None:
    """After a clean stop, a workflow parked for its crashes stays parked, and an ended one stays as it is."""
    engine = DirectEngine(*FLOWS)
    for id in ("ended", "parked"):
        engine.start(bomb(), id)
        engine.state.mark[0] = engine.record(id).key
        engine.restart(*FLOWS, clean=False)
    engine.do(TerminateWorkflow("ended"))
    for _ in range(2):
        engine.state.mark[0] = engine.record("parked").key
        engine.restart(*FLOWS, clean=False)
    before = [engine.record(id) for id in ("ended", "parked")]
    engine.restart(*FLOWS, clean=True)
    assert [engine.record(id) for id in ("ended", "parked")] == before
    assert before[1].park_reason is ParkReason.CRASHED


def test_very_many_bodies_that_died() -> None:
    """If more bodies died than the table holds, the last ones are remembered and the first ones start over."""
    engine = DirectEngine(*FLOWS)
    for number in range(40):
        engine.start(bomb(), f"w{number}")
        engine.state.mark[0] = engine.record(f"w{number}").key
        engine.restart(*FLOWS, clean=False)
    for number, crashes in ((39, 2), (20, 2), (0, 1)):
        engine.state.mark[0] = engine.record(f"w{number}").key
        engine.restart(*FLOWS, clean=False)
        assert engine.record(f"w{number}").crashes == crashes


def test_parent_that_dies_when_its_child_ends_takes_the_blame() -> None:
    """The parent that dies of its child's end is blamed, not the child."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    for _ in range(3):
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            engine.finish(engine.activities[0], 1)
        engine.restart(*FLOWS, clean=False)
    assert (engine.record("w").park_reason, engine.record("child").park_reason) == (ParkReason.CRASHED, None)


def test_target_that_dies_of_an_event_takes_the_blame() -> None:
    """The target is blamed, not the sender, who repeats the event. Once it is parked, its event is kept for it."""
    engine = DirectEngine(*FLOWS)
    engine.start(lighter("target"), "w")
    engine.start(bomb(), "target")
    for crashes in (1, 2, 3):
        engine.state.watch = Killer("target")
        with pytest.raises(SimCrash):
            engine.send(fuse, 1, to="w")
        engine.restart(*FLOWS, clean=False)
        assert (engine.record("target").crashes, engine.record("w").crashes) == (crashes, 0)
    assert (engine.record("target").park_reason, _parked(engine)) == (ParkReason.CRASHED, ["target"])
    engine.send(fuse, 1, to="w")
    assert (engine.result("w"), engine.pending("blamed.fuse")) == ("sent", 1)


def test_body_that_dies_when_it_is_rebuilt_is_parked() -> None:
    """A workflow that kills the process whenever it is loaded is parked at the third crash, and the others run."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker(), "a")
    engine.start(worker(), "w")
    engine.restart(*FLOWS, clean=False, recover=False)
    for _ in range(3):
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            engine.do(RecoverWorkflows())
        engine.restart(*FLOWS, clean=False, recover=False)
    assert engine.recover() == RecoveryReport(resumed=1, parked=1)
    assert _parked(engine) == ["w"]


def test_step_that_is_survived_clears_the_count() -> None:
    """A body that merely ran when the process was killed is acquitted by its next step."""
    engine = DirectEngine(*FLOWS)
    engine.start(bomb())
    engine.state.mark[0] = engine.record().key
    engine.restart(*FLOWS, clean=False)
    assert engine.record().crashes == 1
    engine.send(fuse, 7, to="w")
    assert (engine.result(), engine.record().crashes) == (7, 0)


def test_run_without_the_code_does_not_clear_the_count() -> None:
    """An engine without the code cannot tell whether the body kills, so it does not clear the count."""
    engine = DirectEngine(*FLOWS)
    engine.start(bomb())
    engine.state.mark[0] = engine.record().key
    engine.restart(clean=False)
    engine.send(fuse, 7)
    assert (engine.record().park_reason, engine.record().crashes) == (ParkReason.UNKNOWN_CODE, 1)
    engine.restart(*FLOWS)
    assert (engine.result(), engine.record().crashes) == (7, 0)


def test_start_that_kills_before_it_is_stored_is_parked() -> None:
    """The caller repeats the start after each crash. From the second on, the workflow is stored before it runs."""
    engine = DirectEngine(*FLOWS)
    for _ in range(4):
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            _start_and_recover(engine)
        engine.restart(*FLOWS, clean=False, recover=False)
    assert engine.record().park_reason is ParkReason.CRASHED
    engine.start(worker(), "next")
    engine.settle()
    assert _waiting(engine) == ["next"]


@pytest.mark.parametrize("start", [parent, spawning], ids=["awaited", "spawned"])
def test_child_that_kills_before_it_is_stored_is_parked(start: WorkflowDef[..., int]) -> None:
    """The parent repeats the start of its child after each crash. In the end the child is parked, and nobody else."""
    engine = DirectEngine(*FLOWS)
    engine.start(start(True) if start is parent else start())
    for _ in range(4):
        engine.state.watch = Killer("child")
        with pytest.raises(SimCrash):
            _send_and_recover(engine)
        engine.restart(*FLOWS, clean=False, recover=False)
    assert _parked(engine) == ["child"]


@pytest.mark.parametrize("how", ["ended", "never stored", "set aside"])
def test_mark_of_a_body_that_cannot_be_blamed(how: str) -> None:
    """A body that ended since, was never stored, or is already parked for crashing is not blamed again."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_crashes=1))
    engine.start(nothing(4) if how == "ended" else waiter())
    key = engine.record().key + (1_000 if how == "never stored" else 0)
    for _ in range(2):
        before = engine.record() if how != "set aside" else None
        engine.state.mark[0] = key
        engine.restart(*FLOWS, clean=False)
        assert engine.record() == (before or engine.record())
    assert _parked(engine) == (["w"] if how == "set aside" else [])


def test_mark_after_a_clean_stop_counts_nothing() -> None:
    """Only a crash is blamed on anybody, not a clean stop."""
    engine = DirectEngine(*FLOWS)
    engine.start(waiter())
    engine.state.mark[0] = engine.record().key
    engine.restart(*FLOWS, clean=True)
    assert engine.record().crashes == 0
