"""The engine for services without an event loop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from durable import (
    Delivered,
    Durable,
    EngineClosed,
    Event,
    OperationMisused,
    Queued,
    RecoveryReport,
    SyncWorkflowEngine,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store

answer = Event[int]("sync-answer")


@activity
async def add_one(number: int) -> int:
    """On the portal's loop."""
    return number + 1


@activity
def add_ten(number: int) -> int:
    """In a thread."""
    return number + 10


@workflow(name="sync-sums")
def sums(number: int) -> Durable[int]:
    """One of everything."""
    first, second = yield from gather(add_one(number), add_ten(number))
    return (yield from add_one(first + second + (yield from answer.wait())))


@workflow(name="sync-nap")
def nap() -> Durable[str]:
    """Sleep an hour."""
    yield from sleep(timedelta(hours=1))
    return "rested"


def test_sync_engine_runs_a_whole_scenario(store: Store) -> None:
    """Start, event, result, status, cancel and a restart work as they do under an event loop."""
    with SyncWorkflowEngine(store) as engine:
        handle = engine.start(sums(1), id="a", tags=["t"])
        assert (handle.id, repr(handle)) == ("a", "<workflow handle 'a'>")
        engine.start(sums(2), id="b")
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
    with SyncWorkflowEngine(store) as engine:
        handle = engine.handle("a")
        engine.send_event(answer, 100, to="a")
        assert handle.result(timeout=SOON) == 2 + 11 + 100 + 1
        assert engine.query_result("a") == 114
        assert (handle.status(), engine.query_status("b")) == (WorkflowStatus.SUCCEEDED, WorkflowStatus.SUSPENDED)
        assert engine.cancel("b", reason="done")
        with pytest.raises(WorkflowCancelled, match="done"):
            engine.handle("b").result(timeout=SOON)
        assert not engine.handle("b").cancel()
        assert not engine.terminate("b")
        assert engine.recover() == RecoveryReport()


def test_sync_engine_has_the_groups(store: Store) -> None:
    """`runs` and `dead_letters` have the same methods."""
    with SyncWorkflowEngine(store) as engine:
        engine.start(nap(), id="a", tags=["t"])
        assert engine.send_event(answer, 5, to="a") == Queued()
        assert [run.id for run in engine.runs.list(tag="t", limit=1)] == ["a"]
        assert [run.id for run in engine.runs.scan(id_prefix="a")] == ["a"]
        assert engine.runs.count(status=WorkflowStatus.SUSPENDED) == 1
        assert engine.runs.history("a") == []
        assert [wait.kind for wait in engine.runs.describe("a").waits] == ["timer"]
        engine.terminate("a")
        (letter,) = engine.dead_letters.list()
        engine.start(sums(1), id="b")
        reply = engine.dead_letters.replay(letter.id, to="b")
        assert reply in (Queued(), Delivered(("b",)))
        assert engine.handle("b").result(timeout=SOON) == 19
        with pytest.raises(WorkflowNotFound):
            engine.runs.history("nobody")
        with pytest.raises(LookupError):
            engine.dead_letters.remove(letter.id)
        assert engine.runs.purge(0) >= 1


def test_sync_engine_may_be_used_from_many_threads(store: Store) -> None:
    """Eight threads start, nudge and wait for ten workflows each, and each gets its own results."""

    def client(name: int) -> list[int]:
        results = []
        for number in range(10):
            handle = engine.start(sums(number), id=f"{name}-{number}")
            engine.send_event(answer, 1000 * name, to=handle.id)
            results.append(handle.result(timeout=SOON))
        return results

    with SyncWorkflowEngine(store) as engine, ThreadPoolExecutor(8) as pool:
        by_client = list(pool.map(client, range(8)))
    assert by_client == [[2 * number + 12 + 1000 * name for number in range(10)] for name in range(8)]


def test_sync_engine_is_usable_only_while_it_is_open(store: Store) -> None:
    """Before, after a shutdown and after the block every call raises `EngineClosed`; an error in the block passes."""
    engine = SyncWorkflowEngine(store)
    with pytest.raises(EngineClosed):
        engine.query_status("a")
    with engine:
        engine.shutdown()
        engine.shutdown(drain=0)
        with pytest.raises(EngineClosed):
            engine.start(nap())
    for use in (engine.recover, engine.runs.list, engine.dead_letters.list, engine.handle("a").result):
        with pytest.raises(EngineClosed):
            use()
    with pytest.raises(KeyError, match="mine"), SyncWorkflowEngine(store):
        raise KeyError("mine")
    with SyncWorkflowEngine(store) as again:
        assert again.runs.count() == 0


def test_sync_engine_wakes_those_who_wait_when_it_closes(store: Store) -> None:
    """A thread that waits for a result when another thread closes the engine gets `EngineClosed`."""
    waits = threading.Event()
    caught: list[BaseException] = []

    def client() -> None:
        handle = engine.start(nap(), id="a")
        waits.set()
        try:
            handle.result()
        except BaseException as error:
            caught.append(error)

    with SyncWorkflowEngine(store) as engine:
        thread = threading.Thread(target=client)
        thread.start()
        assert waits.wait(SOON)
    thread.join(SOON)
    assert [type(error) for error in caught] == [EngineClosed]


def test_sync_engine_must_not_be_called_from_a_body() -> None:
    """A body that calls it fails with advice, and nothing hangs."""

    @workflow(name="sync-talks")
    def body() -> Durable[None]:
        engine.query_status("a")
        yield from sleep(0)

    with SyncWorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            engine.start(body()).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OperationMisused)


def test_sync_engine_may_be_called_from_an_activity() -> None:
    """A plain activity may start another workflow and wait for it."""

    @activity
    def ask() -> int:
        inner = engine.start(sums(1), id="inner")
        engine.send_event(answer, 5, to="inner")
        return inner.result(timeout=SOON) + 1

    @workflow(name="sync-asks")
    def body() -> Durable[int]:
        return (yield from ask())

    with SyncWorkflowEngine("memory://") as engine:
        assert engine.start(body()).result(timeout=SOON) == 20


def test_sync_engine_takes_a_clock(store: Store) -> None:
    """Settings are passed on to the engine."""
    clock = ManualClock()
    with SyncWorkflowEngine(store, clock=clock) as engine:
        handle = engine.start(nap(), id="a")
        clock.advance(timedelta(hours=1))
        engine.query_status("a")
        assert handle.result(timeout=SOON) == "rested"
