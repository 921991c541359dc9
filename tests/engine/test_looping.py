"""Loops as decisions: what a round costs, what is trimmed, and that restarts between steps change nothing."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from durable import (
    Break,
    Cancelled,
    Continue,
    Durable,
    EngineConfig,
    Event,
    OnParentClose,
    PayloadTooLarge,
    TimedOut,
    WorkflowStatus,
    gather,
    loop,
    now,
    pause,
    publish,
    random,
    sleep,
    spawn,
    uuid,
    workflow,
)
from durable.backends.sqlite import SqliteBackend
from durable.engine import operations as ops
from durable.model.records import EntryKind
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import pauses, resume
from tests.engine.direct import DirectEngine
from tests.engine.flows import clean, work

Next = Continue[int] | Break[int]
Seen = dict[str, list[str]]
tick = Event[int]("looping.tick")


def stepping(number: int) -> Durable[Next]:
    """A round with one activity."""
    got = yield from work(number)
    return Continue(got + 1) if got < 6 else Break(got)


def looping(keep: int, name: str = "looping.flow") -> WorkflowDef[[], Any]:
    """Runs a loop of seven rounds, then a step."""

    @workflow(name=name)
    def flow() -> Durable[int]:
        last = yield from loop(stepping, 0, keep=keep)
        yield from clean()
        return last

    return flow


def places(engine: DirectEngine, id: str = "w") -> list[str]:
    """The positions of the recorded entries."""
    return [entry.position for entry in engine.history(id)]


def step(engine: DirectEngine) -> None:
    """The only running activity returns its argument."""
    (effect,) = engine.activities
    engine.finish(effect, effect.args[0] if effect.args else None)


# --- commits and rows -------------------------------------------------------------------------------------------------


def test_round_ends_and_the_next_begins_in_one_commit() -> None:
    """The entry that ends a round, the next state and the next step are one decision."""
    flow = looping(10)
    engine = DirectEngine(flow)
    engine.start(flow())
    before = engine.commits
    step(engine)
    assert engine.commits == before + 1
    assert [(entry.seq, entry.position, entry.kind.value, entry.name) for entry in engine.history()] == [
        (1, "0.0.0", "activity", "engine.work"),
        (2, "0.1.0", "loop", "state"),
    ]
    assert [effect.position for effect in engine.activities] == ["0.1.1"]


@pytest.mark.parametrize("keep", [0, 2, 10])
def test_rows_of_old_rounds_go(keep: int) -> None:
    """The store holds the running round and as many finished ones as the loop keeps, even after the loop ends."""
    flow = looping(keep)
    engine = DirectEngine(flow)
    engine.start(flow())
    for _ in range(7):
        step(engine)
    kept = range(max(0, 6 - keep), 7)
    assert sorted({int(place.split(".")[1]) for place in places(engine)}) == [*kept]
    assert engine.history()[-1].seq == 7 + 6
    engine.restart(flow)
    step(engine)
    assert engine.result() == 6
    assert engine.history()[-1].seq == 7 + 6 + 1


def test_rows_go_at_once() -> None:
    """Neither a query in the same batch nor one after the commit sees a trimmed round."""
    flow = looping(0)
    engine = DirectEngine(flow)
    engine.start(flow())
    (effect,) = engine.activities
    _, entries = engine.batch(engine.answer(effect, 0), ops.ReadHistory("w"))
    assert [entry.position for entry in entries] == places(engine) == ["0.1.0"]


def test_code_that_keeps_fewer_rounds_trims_on_load() -> None:
    """If new code keeps fewer rounds, the surplus is trimmed when the workflow is first loaded."""
    engine = DirectEngine(looping(10))
    engine.start(looping(10)())
    for _ in range(4):
        step(engine)
    engine.restart(looping(1))
    assert places(engine) == ["0.3.0", "0.3.1", "0.4.0"]


def test_pending_events_pass_in_one_commit() -> None:
    """One decision takes thousands of pending events in order, one per round."""
    count = 3_000

    def adding(state: list[int]) -> Durable[Any]:
        got = yield from tick.wait()
        if got != state[0]:
            return Break(f"{got} came instead of {state[0]}")
        return Continue([got + 1, state[1] + got]) if got < count - 1 else Break(state[1] + got)

    @workflow(name="looping.adder")
    def adder() -> Durable[Any]:
        yield from sleep(60)
        return (yield from loop(adding, [0, 0], keep=3))

    engine = DirectEngine(adder, checks=False, config=EngineConfig(max_steps_per_decision=10_000))
    engine.start(adder())
    engine.batch(*(ops.SendEvent(name=tick.name, payload=str(number), to="w") for number in range(count)))
    before = engine.commits
    engine.advance(60)
    assert engine.commits == before + 1
    assert engine.result() == sum(range(count))
    # The timer, the last round and three more, each with its state.
    assert len(engine.history()) == 1 + 2 * 4
    assert engine.pending(tick.name) == 0


# --- restarts ---------------------------------------------------------------------------------------------------------


@workflow(name="looping.child")
def child() -> Durable[int]:
    """Waits forever."""
    return (yield from tick.wait("child"))


def outer(state: Seen) -> Durable[Continue[Seen] | Break[list[str]]]:
    """A round with everything: an activity, a timer, an event, branches, random values, and another loop."""
    seen = state["seen"]
    first = yield from work(random("outer").randrange(1000))
    woken = yield from sleep(5)
    publish(len(seen))
    got, last = yield from gather(tick.wait(), loop(inner, 0, keep=1))
    seen.append(f"{first} {woken:%H:%M:%S} {got} {last} {uuid()} {now():%H:%M:%S}")
    return Continue(state) if len(seen) < 4 else Break(seen)


def inner(number: int) -> Durable[Next]:
    """A round inside a round."""
    got = yield from work(10 * number + uuid().int % 10)
    return Continue(number + 1) if number < 2 else Break(got)


def busy(keep: int) -> WorkflowDef[[], Any]:
    """A workflow with the outer loop, and a branch beside it."""

    @workflow(name="looping.busy")
    def flow() -> Durable[Any]:
        yield from spawn(child(), on_parent_close=OnParentClose.CANCEL)
        first: Seen = {"seen": []}
        return [*(yield from gather(loop(outer, first, keep=keep), beside()))]

    return flow


def beside() -> Durable[list[str]]:
    """Waits with a timeout that was set before the first round."""
    try:
        yield from tick.wait("beside").within(17)
    except TimedOut:
        return [f"{now():%H:%M:%S}", str(uuid())]
    return []


def run_to_the_end(engine: DirectEngine, flow: WorkflowDef[[], Any], between: str) -> list[Any]:
    """Run the workflow to its end, restarting as asked after each step. Returns steps, result and history."""
    engine.start(flow())
    log: list[Any] = []
    while not engine.status().is_terminal:
        if engine.activities:
            effect = engine.activities[0]
            log.append((effect.position, effect.attempt, effect.args))
            engine.finish(effect, effect.args[0])
        elif events := [wait for wait in engine.waits() if not wait.event_key]:
            log.append(events[0].position)
            engine.send(tick, len(log), to="w")
        else:
            wake_at = engine.record().wake_at
            assert wake_at is not None
            log.append(wake_at - engine.clock.now())
            engine.advance((wake_at - engine.clock.now()) / 1e6)
        if between:
            engine.restart(flow, child, clean=between == "stop")
    return [*log, engine.result(), engine.status("w/0"), places(engine)]


@pytest.mark.parametrize("between", ["stop", "crash"])
@pytest.mark.parametrize("keep", [0, 2])
def test_restart_between_any_two_steps_changes_nothing(between: str, keep: int) -> None:
    """A workflow that restarts after every step has the same steps, times, result and history."""
    flow = busy(keep)
    undisturbed = run_to_the_end(DirectEngine(flow, child), flow, "")
    assert len(undisturbed[-3][0]) == 4
    assert undisturbed[-2] is WorkflowStatus.CANCELLED
    assert run_to_the_end(DirectEngine(flow, child), flow, between) == undisturbed


def test_eviction_and_files_change_nothing(tmp_path: pathlib.Path) -> None:
    """Eviction and a file change nothing. The number of kept rounds changes only the history."""
    flow = busy(1)
    undisturbed = run_to_the_end(DirectEngine(flow, child), flow, "")
    crowded = DirectEngine(
        flow,
        child,
        config=EngineConfig(max_loaded_workflows=1),
        make=lambda: SqliteBackend(tmp_path / "store.db", synchronous="NORMAL"),
    )
    crowded.start(child(), "another")
    assert run_to_the_end(crowded, flow, "") == undisturbed
    crowded.backend.close()
    assert run_to_the_end(DirectEngine(busy(7), child), busy(7), "crash")[:-1] == undisturbed[:-1]


def test_answer_for_an_earlier_round_is_dropped() -> None:
    """An activity that returns twice ends its own round, not the next one."""
    flow = looping(0)
    engine = DirectEngine(flow)
    engine.start(flow())
    (effect,) = engine.activities
    engine.batch(engine.answer(effect, 0), engine.answer(effect, 0))
    assert places(engine) == ["0.1.0"]
    engine.restart(flow)
    engine.do(engine.answer(effect, 0))
    assert places(engine) == ["0.1.0"]


def test_children_of_trimmed_rounds_end_with_their_parent() -> None:
    """Tied children of trimmed rounds end with their parent, although no entry mentions them."""

    def body(number: int) -> Durable[Next]:
        if number == 3:
            return Break(number)
        yield from spawn(child(), on_parent_close=OnParentClose.CANCEL)
        return Continue(number + 1)

    @workflow(name="looping.parent")
    def parent() -> Durable[int]:
        last = yield from loop(body, 0, keep=0)
        yield from sleep(60)
        return last

    engine = DirectEngine(parent, child)
    engine.start(parent())
    assert places(engine) == ["0.3.0"]
    engine.restart(parent, child)
    engine.advance(60)
    assert engine.result() == 3
    ids = ["w/0.0.0", "w/0.1.1", "w/0.2.1"]
    assert {engine.status(id) for id in ids} == {WorkflowStatus.CANCELLED}


# --- limits, pauses, endings ------------------------------------------------------------------------------------------


def test_state_that_is_too_large_is_raised_by_the_loop() -> None:
    """A state that is too large raises in the body, which may catch it. A replay with more room raises it again."""

    def growing(text: str) -> Durable[Any]:
        yield from work(len(text))
        return Continue(text * 2)

    @workflow(name="looping.growing")
    def flow() -> Durable[str]:
        try:
            yield from loop(growing, "0123456789")
        except PayloadTooLarge as error:
            yield from clean()
            return f"{error.where} {error.limit}"
        return ""

    engine = DirectEngine(flow, config=EngineConfig(max_payload_bytes=100))
    engine.start(flow())
    for _ in range(3):
        step(engine)
    failed = engine.history()[-1]
    assert (failed.position, failed.kind, failed.status.value) == ("0.3.0", EntryKind.LOOP, "error")
    engine.config = EngineConfig()
    engine.restart(flow)
    step(engine)
    assert engine.result() == "loop: state 100"


def test_pause_in_a_round_is_listed() -> None:
    """A pause in a round is open until it is answered, and then the next round asks again."""

    def asking(number: int) -> Durable[Next]:
        is_sure = yield from pause(returns=bool, prompt={"round": number})
        return Continue(number + 1) if is_sure else Break(number)

    @workflow(name="looping.asking")
    def flow() -> Durable[int]:
        return (yield from loop(asking, 0, keep=0))

    engine = DirectEngine(flow)
    engine.start(flow())
    for number in range(4):
        (open_pause,) = pauses(engine)
        assert open_pause.prompt == {"round": number}
        resume(engine, open_pause.pause_id, number < 3)
        engine.restart(flow)
    assert engine.result() == 3


def test_loop_is_cancelled_in_its_round() -> None:
    """A cancel after a restart is raised in the running round, and the workflow ends as cancelled."""
    cancelled_in: list[int] = []

    def waiting(number: int) -> Durable[Next]:
        try:
            yield from tick.wait()
        except Cancelled:
            cancelled_in.append(number)
        return Continue(number + 1)

    @workflow(name="looping.waiting")
    def flow() -> Durable[int]:
        return (yield from loop(waiting, 0, keep=0))

    engine = DirectEngine(flow)
    engine.start(flow())
    engine.send(tick, 1, to="w")
    engine.restart(flow)
    assert engine.cancel()
    assert (engine.status(), cancelled_in) == (WorkflowStatus.CANCELLED, [1])
    assert engine.waits() == []


def test_next_round_of_the_workflow_begins_with_an_empty_history() -> None:
    """After a workflow with a loop continues as itself, its new entries are not trimmed."""

    @workflow(name="looping.again")
    def again(times: int) -> Durable[int]:
        last = yield from loop(stepping, 4, keep=0)
        if times:
            raise again.continue_as(times - 1)
        return last

    engine = DirectEngine(again)
    engine.start(again(1))
    for number in range(6):
        assert [entry.seq for entry in engine.history()] == ([[], [2], [4]][number % 3])
        step(engine)
        engine.settle()
    assert engine.result() == 6


def test_workflow_is_described_in_its_round() -> None:
    """A description names the position in the round and the source line of the wait."""
    flow = looping(0)
    engine = DirectEngine(flow)
    engine.start(flow())
    step(engine)
    engine.restart(flow)
    described = engine.do(ops.DescribeWorkflow("w"))
    (wait,) = described.waits
    assert (wait.position, described.history_length) == ("0.1.1", 1)
    line = stepping.__code__.co_firstlineno + 2
    assert (wait.source or "").endswith(f"test_looping.py:{line}")
