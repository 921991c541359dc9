"""A replay equals the live run, in whatever order the waits are answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import Cancelled, TimedOut
from durable.model.records import EntryKind, HistoryEntry
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import now, random, uuid
from durable.runner.fibers import WaitCondition
from durable.runner.ops import sleep
from durable.runner.results import Suspended
from tests.runner.builders import (
    Declined,
    a_session,
    activity_error,
    activity_retry,
    answer,
    approval,
    cancellation,
    charge,
    notify,
    picture,
    seconds,
    ship,
    suspended,
)


@workflow(name="runner.replay.child")
def child(amount: int) -> Durable[int]:
    """A child of the workflows below."""
    return (yield from charge(amount))


def paying(amount: int) -> Durable[Any]:
    """A branch with several steps that catches a failure and cleans up when it is cancelled."""
    try:
        paid = yield from charge(amount)
        yield from sleep(paid % 3)
        return paid, uuid("pay")
    except Declined as error:
        return str(error), now()
    except Cancelled:
        yield from notify("undone")
        raise


@workflow(name="runner.replay.generator")
def nested() -> Durable[Any]:
    """Everything nested in everything."""
    first = yield from race(gather(paying(1), paying(2)), late=sleep(20), asked=approval.wait())
    second = yield from gather(
        race(child(1), approval.wait("k"), slow=paying(3)),
        gather(charge(4), ship(["a"])).within(30).or_default("late"),
    )
    return first, second, random("dice").random(), now()


@workflow(name="runner.replay.coroutine")
async def looping() -> Any:
    """A loop with limits, as a coroutine."""
    seen: list[Any] = []

    async def watch(limit: int) -> str | None:
        try:
            return await approval.wait(str(limit)).within(limit)
        except TimedOut:
            return (await gather(ship([str(limit)]), sleep(1)))[0]

    for limit in range(3):
        won = await race(watch(limit), charge(limit), both=gather(sleep(2), sleep(1)))
        seen += [won.key, str(won.value), now()]
    return seen, uuid()


@workflow(name="runner.replay.stubborn")
def stubborn() -> Durable[Any]:
    """Continues after a cancellation, round by round, and finally as another call."""
    for amount in range(3):
        try:
            yield from gather(charge(amount), sleep(amount))
        except Cancelled as request:
            yield from notify(request.reason or "")
        except Declined:
            yield from race(sleep(9), child(amount))
    raise stubborn.continue_as()


VALUES: dict[str, list[Any]] = {"charge": [0, 1, 7], "ship": ["x", None], "notify": [None], child.name: [5, -5]}
Step = tuple[int, str, int]
STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from("ok ok ok ok error retry cancel".split()), st.integers(0, 5)),
    max_size=25,
)


def entry_for(waits: list[WaitCondition], seq: int, step: Step) -> HistoryEntry:
    """One of the entries that could come next."""
    pick, action, extra = step
    wait = waits[pick % len(waits)]
    if action == "cancel" and pick % 3 == 0:
        return cancellation(seq, "enough" if extra else None)
    if wait.kind is EntryKind.ACTIVITY and action == "error":
        return activity_error(seq, wait.position, wait.name, Declined("no", extra))
    if wait.kind is EntryKind.ACTIVITY and action == "retry":
        return activity_retry(seq, wait.position, wait.name, seconds(seq + extra))
    values = VALUES.get(wait.name, [None] if wait.kind is EntryKind.TIMER else ["yes", None])
    return answer(wait, seq, values[extra % len(values)])


@pytest.mark.parametrize("definition", [nested, looping, stubborn], ids=lambda case: case.name)
@given(steps=STEPS)
def test_replay_is_the_live_run(definition: WorkflowDef[[], Any], steps: list[Step]) -> None:
    """A session fed step by step and a fresh one that replays the same entries look the same at every step."""
    live = a_session(definition)
    result = live.start()
    entries: list[HistoryEntry] = []
    for seq, step in enumerate(steps, 1):
        if not isinstance(result, Suspended):
            break
        entries.append(entry_for(list(live.waits.values()), seq, step))
        result = live.feed(entries[-1])
        fresh = a_session(definition)
        assert picture(fresh, fresh.replay(entries)) == picture(live, result)
        fresh.close()
    live.close()


@pytest.mark.parametrize("definition", [nested, looping, stubborn], ids=lambda case: case.name)
@given(steps=STEPS)
def test_results_report_every_change_of_the_waits(definition: WorkflowDef[[], Any], steps: list[Step]) -> None:
    """The open waits follow from the results alone: add the opened ones, remove the withdrawn and answered ones."""
    session = a_session(definition)
    result = session.start()
    tracked = {wait.position for wait in suspended(result).opened}
    for seq, step in enumerate(steps, 1):
        entry = entry_for(list(session.waits.values()), seq, step)
        result = session.feed(entry)
        if not isinstance(result, Suspended):
            break
        if entry.retry_at_us is None:
            tracked.discard(entry.position)
        tracked |= {wait.position for wait in result.opened}
        tracked -= {wait.position for wait in result.withdrawn}
        assert tracked == set(session.waits)
    session.close()
    assert session.wake_at() is None


@pytest.mark.parametrize("definition", [nested, looping, stubborn], ids=lambda case: case.name)
def test_replay_of_nothing_is_a_start(definition: WorkflowDef[[], Any]) -> None:
    """Without entries a replay opens the same waits as a start."""
    started, replayed = a_session(definition), a_session(definition)
    assert picture(started, started.start()) == picture(replayed, replayed.replay([]))
