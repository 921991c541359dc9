"""Who is blamed for an unclean stop in which a body ran: the workflow whose body it was."""

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
from durable.model.records import WorkflowRecord
from durable.runner.session import WorkflowSessionRunner
from durable.testing.faults import SimCrash
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, nothing, waiter, worker

fuse = Event[int]("blamed.fuse")


@workflow(name="blamed.bomb")
def bomb() -> Durable[int]:
    """Waits for the event that kills it."""
    return (yield from fuse.wait())


@workflow(name="blamed.parent")
def parent(waits_first: bool = False) -> Durable[int]:
    """Waits for a child that does no harm."""
    if waits_first:
        yield from fuse.wait()
    return (yield from worker().with_id("child"))


@workflow(name="blamed.spawning")
def spawning() -> Durable[int]:
    """Starts a child beside it."""
    yield from fuse.wait()
    return (yield from (yield from spawn(worker(), id="child")).result())


@workflow(name="blamed.lighter")
def lighter(to: str) -> Durable[str]:
    """Passes an event on to another workflow."""
    yield from fuse.send((yield from fuse.wait()), to=to)
    return "sent"


@workflow(name="blamed.ticker")
def ticker() -> Durable[None]:
    """Waits for the event that kills it, and wakes up every second meanwhile."""
    yield from race(ticks=loop(_tick, 0, keep=0), heard=fuse.wait())


def _tick(number: int) -> Durable[Continue[int]]:
    yield from sleep(1)
    return Continue(number + 1)


@workflow(name="blamed.listener")
def listener() -> Durable[None]:
    """Takes one event after the other."""
    while True:
        yield from fuse.wait()


@workflow(name="blamed.rounds")
def rounds() -> Durable[None]:
    """Takes one event after the other, each in a round of its own."""
    yield from fuse.wait()
    raise rounds.continue_as()


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (bomb, lighter, parent, spawning, ticker, listener, rounds, *EVERY)


class Killer:
    """Ends the process when the body of a workflow runs, or, with `fed`, when it learns something."""

    def __init__(self, *ids: str, fed: bool = False) -> None:
        self.ids = ids
        self.fed = fed

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """The body is about to run."""
        if record.id in self.ids and not (self.fed and session.interpreter.stepped is None):
            raise SimCrash

    def leave(self) -> None:
        """It came back."""


def _start_and_recover(engine: DirectEngine) -> None:
    """What a service does whose start was not answered."""
    engine.start(worker())
    engine.recover()


def _send_and_recover(engine: DirectEngine) -> None:
    """What a service does whose event was not answered."""
    engine.send(fuse, 1, to="w")
    engine.recover()


def _parked(engine: DirectEngine) -> list[str]:
    return [id for id in engine.ids() if engine.status(id) is WorkflowStatus.PARKED]


def _waiting(engine: DirectEngine) -> list[str]:
    return [effect.workflow_id for effect in engine.activities]


def test_body_that_dies_of_an_event_is_parked_at_the_third_crash() -> None:
    """The event is sent again after each crash; the third crash parks the workflow, and the event stays sendable."""
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
    """A workflow wakes up every second and dies of its event: what it survives in between is another step."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_crashes=max_crashes))
    engine.start(ticker())
    for crashes in range(1, max_crashes + 1):
        assert engine.record().crashes == crashes - 1
        engine.advance(3)
        _die_of(engine, 1)
    assert engine.record().park_reason is ParkReason.CRASHED


@pytest.mark.parametrize("flow", [listener, rounds], ids=["positions", "rounds"])
def test_answer_that_kills_is_known_wherever_it_comes(flow: WorkflowDef[[], None]) -> None:
    """Every life brings a harmless event first, so that the deadly one comes to another position each time."""
    engine = DirectEngine(*FLOWS)
    engine.start(flow())
    for crashes in (1, 2, 3):
        assert engine.record().crashes == crashes - 1
        engine.send(fuse, 1, to="w")
        engine.settle()
        _die_of(engine, 2)
    assert engine.record().park_reason is ParkReason.CRASHED


def test_deaths_of_other_answers_in_other_places_do_not_add_up() -> None:
    """A busy workflow is there at many kills from outside, each in another step that it survives in the next life."""
    engine = DirectEngine(*FLOWS)
    engine.start(listener())
    for number in range(10):
        _die_of(engine, 2 * number)
        assert engine.record().crashes == 1
        engine.send(fuse, 2 * number + 1, to="w")


@pytest.mark.parametrize("how", ["same answer", "code missing", "other places"])
def test_what_clears_the_count(how: str) -> None:
    """The same answer in the same place, and nothing else: neither parking nor another step."""
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


def test_good_life_in_between_is_not_in_a_row() -> None:
    """Kills while a body runs, each followed by a life with an orderly stop, park nobody."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    for _ in range(5):
        _die_of(engine, 1)
        assert engine.record().crashes == 1
        engine.restart(*FLOWS, clean=True)
        assert engine.record().crashes == 0


def test_orderly_life_without_code_ends_no_row() -> None:
    """A script that opens the store without the workflow's code, and leaves, does not save the one that kills."""
    engine = DirectEngine(*FLOWS)
    engine.start(ticker())
    for crashes in (1, 2, 3):
        _die_of(engine, 1)
        assert engine.record().crashes == crashes
        engine.restart(clean=False)
        engine.restart(*FLOWS, clean=True)
    assert engine.record().park_reason is ParkReason.CRASHED


def test_rebuilding_that_is_survived_clears_the_count() -> None:
    """Kills while a long history is replayed, each followed by a life in which that succeeds, park nobody."""
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


def test_kill_while_it_is_rebuilt_hides_no_culprit() -> None:
    """Somebody kills the process while the culprit is loaded; the next life survives that, and not its event."""
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


def test_orderly_stop_leaves_alone_who_is_parked_or_has_ended() -> None:
    """A workflow that was parked for its crashes stays parked, and one that has ended stays as it is."""
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
    """Of more bodies than there is room for, the last ones are known; the first ones start over."""
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
    """The child that did nothing but end is not blamed."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    for _ in range(3):
        engine.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            engine.finish(engine.activities[0], 1)
        engine.restart(*FLOWS, clean=False)
    assert (engine.record("w").park_reason, engine.record("child").park_reason) == (ParkReason.CRASHED, None)


def test_target_that_dies_of_an_event_takes_the_blame_and_not_its_sender() -> None:
    """The sender is told to send after each crash; when its target is parked, the event is kept for it."""
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
    """A workflow that kills whoever loads it is parked at the third crash; the others run."""
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
    """A body that was only there when somebody else killed the process is acquitted by its next step."""
    engine = DirectEngine(*FLOWS)
    engine.start(bomb())
    engine.state.mark[0] = engine.record().key
    engine.restart(*FLOWS, clean=False)
    assert engine.record().crashes == 1
    engine.send(fuse, 7, to="w")
    assert (engine.result(), engine.record().crashes) == (7, 0)


def test_life_without_code_does_not_clear_the_count() -> None:
    """Nobody could look at a body whose code was missing, so that says nothing about whether it kills."""
    engine = DirectEngine(*FLOWS)
    engine.start(bomb())
    engine.state.mark[0] = engine.record().key
    engine.restart(clean=False)
    engine.send(fuse, 7)
    assert (engine.record().park_reason, engine.record().crashes) == (ParkReason.UNKNOWN_CODE, 1)
    engine.restart(*FLOWS)
    assert (engine.result(), engine.record().crashes) == (7, 0)


def test_start_that_kills_before_it_is_stored_is_parked() -> None:
    """The caller repeats the start after each crash. From the second on the workflow is stored before it runs."""
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
    """The parent comes to the start of its child again and again; in the end the child is parked, and only that."""
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
    """A body that has ended since, was never stored, or is parked for crashing already changes nothing."""
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
    """Only an unclean stop is anybody's fault."""
    engine = DirectEngine(*FLOWS)
    engine.start(waiter())
    engine.state.mark[0] = engine.record().key
    engine.restart(*FLOWS, clean=True)
    assert engine.record().crashes == 0
