"""Several things at once, as a service sees them: which branch wins, what happens to the others, and restarts."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from durable import (
    Cancelled,
    Durable,
    Event,
    Retry,
    Returned,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    fan_out,
    first_success,
    gather,
    race,
    settle,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("at-once-answer")
stopped: list[str] = []


class Declined(Exception):
    """What a failing activity raises."""


@activity(name="at-once-quick", retry=Retry.never())
async def quick(number: int) -> int:
    """Succeeds, or fails with a negative number."""
    if number < 0:
        raise Declined(number)
    return number * 10


@activity(name="at-once-endless", retry=Retry.never())
async def endless(name: str) -> None:
    """Runs until it is stopped."""
    try:
        await anyio.sleep_forever()
    finally:
        stopped.append(name)


@workflow(name="at-once-ask")
def ask() -> Durable[int]:
    """A child that waits for a number."""
    return (yield from answer.wait("child"))


def two_steps(number: int) -> Durable[int]:
    """A branch with two steps."""
    first = yield from quick(number)
    return first + (yield from quick(number + 1))


async def test_settle_tells_how_each_branch_ended(store: Store) -> None:
    """An activity, a helper, an event, a child and a timer: failures are values beside the results."""

    @workflow(name="settles")
    async def settles() -> list[Any]:
        outcomes = await settle(quick(-1), two_steps(1), answer.wait(), ask(), sleep(0.001), two_steps(-2))
        assert isinstance(outcomes[4], Returned)
        return [
            outcome.value if isinstance(outcome, Returned) else list(outcome.error.args)
            for outcome in outcomes[:4] + outcomes[5:]
        ]

    async with WorkflowEngine(store, workflows=[settles, ask]) as engine:
        await engine.start(settles(), id="w")
        await waiting(engine, "w", "child")
    async with WorkflowEngine(store, workflows=[settles, ask]) as engine:
        await engine.send_event(answer, 5, to="w")
        await engine.send_event(answer, 6, to="w/0.3.0", key="child")
        assert await engine.handle("w").result(timeout=SOON) == [[-1], 30, 5, 6, [-2]]


async def test_first_success_stops_everything_else(store: Store) -> None:
    """When a branch succeeds, the others' activity, wait and child are withdrawn; failures are dropped."""
    stopped.clear()

    @workflow(name="first")
    def first() -> Durable[list[Any]]:
        slow = gather(endless("loser"), answer.wait(), ask(), sleep(3600))
        won = yield from first_success(bad=quick(-1), rest=slow, good=answer.wait("good"))
        return [won.key, won.value, (yield from answer.wait())]

    async with WorkflowEngine(store, workflows=[first]) as engine:
        handle = await engine.start(first(), id="w")
        await waiting(engine, "w", "child")
        await engine.send_event(answer, 7, to="w", key="good")
        described = await engine.runs.describe("w")
        assert [wait.kind for wait in described.waits] == ["event"]
        assert described.summary.wake_at is None
        assert await engine.query_status("w/0.rest.0.2.0") is WorkflowStatus.CANCELLED
        await engine.send_event(answer, 8, to="w")
        assert await handle.result(timeout=SOON) == ["good", 7, 8]
        while not stopped:
            await anyio.lowlevel.checkpoint()
    assert stopped == ["loser"]


async def test_all_failed_ends_a_workflow_with_every_error(store: Store) -> None:
    """A workflow that does not catch AllFailed fails with that name and with the error of each branch."""

    @workflow(name="hopeless")
    def hopeless() -> Durable[None]:
        yield from first_success(one=quick(-1), two=two_steps(-2))

    async with WorkflowEngine(store, workflows=[hopeless]) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(hopeless())).result(timeout=SOON)
    assert caught.value.error_type == "durable.AllFailed"
    assert caught.value.message == "all 2 branches failed: one: Declined: -1; two: Declined: -2"


@pytest.mark.parametrize("combinator", [race, first_success])
async def test_winner_stays_the_winner(store: Store, combinator: Any) -> None:
    """Nothing that happens after a race is decided, not even to the loser, changes the winner on replay."""

    @workflow(name="decided")
    def decided() -> Durable[list[Any]]:
        won = yield from combinator(event=answer.wait(), timer=sleep(60))
        again = yield from answer.wait()
        return [won.key, again]

    clock = ManualClock()
    async with WorkflowEngine(store, workflows=[decided], clock=clock) as engine:
        await engine.start(decided(), id="w")
        await waiting(engine, "w", "timer")
        await move(engine, clock, 61)
        assert [wait.kind for wait in (await engine.runs.describe("w")).waits] == ["event"]
    clock.advance(3600)
    async with WorkflowEngine(store, workflows=[decided], clock=clock) as engine:
        # The losing event goes to the next wait and does not change the winner.
        await engine.send_event(answer, 9, to="w")
        assert await engine.handle("w").result(timeout=SOON) == ["timer", 9]


async def test_event_that_lost_is_there_for_the_next_wait(store: Store) -> None:
    """If the first of two events wins a race, the second stays in the mailbox for the next wait."""

    @workflow(name="twice")
    def twice() -> Durable[list[int]]:
        won = yield from race(answer.wait(), answer.wait())
        yield from quick(1)
        yield from sleep(60)
        return [int(won.key), won.value, (yield from answer.wait())]

    clock = ManualClock()
    async with WorkflowEngine(store, workflows=[twice], clock=clock) as engine:
        await engine.start(twice(), id="w")
        await engine.send_event(answer, 1, to="w")
        await engine.send_event(answer, 2, to="w")
        await waiting(engine, "w", "timer")
        assert (await engine.runs.describe("w")).pending_events == 1
    async with WorkflowEngine(store, workflows=[twice], clock=clock) as engine:
        await move(engine, clock, 61)
        assert await engine.handle("w").result(timeout=SOON) == [0, 1, 2]


async def test_cancelled_workflow_cancels_all_its_branches(store: Store) -> None:
    """A cancellation goes through settle and first_success: every branch cleans up, and nothing is left."""
    stopped.clear()

    def careful() -> Durable[None]:
        try:
            yield from endless("careful")
        except Cancelled:
            yield from quick(1)
            raise

    @workflow(name="cancelled-at-once")
    def body() -> Durable[Any]:
        return (yield from settle(careful(), first_success(answer.wait(), ask()), sleep(3600)))

    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.start(body(), id="w")
        await waiting(engine, "w", "activity")
        assert await engine.cancel("w", "enough")
        with anyio.fail_after(SOON):
            while await engine.query_status("w") is not WorkflowStatus.CANCELLED:
                await anyio.lowlevel.checkpoint()
        assert await engine.query_status("w/0.1.0.1.0") is WorkflowStatus.CANCELLED
        assert [entry.position for entry in await engine.runs.history("w")][-1] == "0.0.1"


async def test_fan_out_runs_a_few_at_a_time_over_restarts(store: Store) -> None:
    """Only a few of many items are processed at once, before and after a restart; results keep their order."""

    def branch(number: int) -> Durable[int]:
        return (yield from quick(number)) + (yield from answer.wait(str(number)))

    @workflow(name="fans-out")
    def fans_out() -> Durable[list[int]]:
        return (yield from fan_out(branch, range(4), limit=2))

    async with WorkflowEngine(store, workflows=[fans_out]) as engine:
        await engine.start(fans_out(), id="w")
        with anyio.fail_after(SOON):
            while (await engine.runs.describe("w")).history_length < 2:
                await anyio.lowlevel.checkpoint()
        assert [wait.position for wait in (await engine.runs.describe("w")).waits] == ["0.0.1", "0.1.1"]
        await engine.send_event(answer, 1, to="w", key="1")
        await engine.send_event(answer, 3, to="w", key="3")
    async with WorkflowEngine(store, workflows=[fans_out]) as engine:
        with anyio.fail_after(SOON):
            while {wait.position for wait in (await engine.runs.describe("w")).waits} != {"0.0.1", "0.2.1"}:
                await anyio.lowlevel.checkpoint()
        for number in (2, 0):
            await engine.send_event(answer, number, to="w", key=str(number))
        assert await engine.handle("w").result(timeout=SOON) == [0, 11, 22, 33]


async def test_fan_out_stops_what_runs_when_one_fails(store: Store) -> None:
    """The first failure stops the running activities and is raised; no other activity begins."""
    stopped.clear()

    def branch(number: int) -> Any:
        return endless(str(number)) if number else quick(-1)

    @workflow(name="fails-out")
    def fails_out() -> Durable[str]:
        try:
            yield from fan_out(branch, [1, 2, 0, 3, 4], limit=3)
        except Declined as error:
            return str(error)
        return ""

    async with WorkflowEngine(store, workflows=[fails_out]) as engine:
        assert await (await engine.start(fails_out(), id="w")).result(timeout=SOON) == "-1"
        with anyio.fail_after(SOON):
            while len(stopped) < 2:
                await anyio.lowlevel.checkpoint()
    assert sorted(stopped) == ["1", "2"]
