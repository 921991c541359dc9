"""Undo through whole engines: bookings that fail, are cancelled, lose a race, and are undone over restarts."""

from __future__ import annotations

import anyio
import pytest

from durable import (
    Cancelled,
    Durable,
    Event,
    Retry,
    SyncWorkflowEngine,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    failed_undos,
    gather,
    race,
    saga,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio
confirmed = Event[bool]("undo-confirmed")
done: list[str] = []


class Declined(Exception):
    """A bank says no."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


@activity(name="undo-book")
async def book(item: str) -> str:
    """A step."""
    done.append(f"book {item}")
    return item


@activity(name="undo-release")
def release(item: str) -> None:
    """Its undo, in a thread."""
    done.append(f"release {item}")


@activity(name="undo-decline", retry=Retry.never())
async def decline() -> None:
    """Fails."""
    raise Declined("no")


@activity(name="undo-refuse", retry=Retry(max_attempts=2, first_delay=60, jitter=0))
async def refuse(item: str) -> None:
    """An undo that always fails."""
    done.append(f"refuse {item}")
    raise OSError(5, f"{item} is gone")


def hotel(name: str) -> Durable[str]:
    """Two bookings, the second of which waits for a person."""
    room = yield from book(f"room {name}").undo(release)
    yield from confirmed.wait(name)
    yield from book(f"breakfast {name}").undo(release)
    return room


@workflow(name="undo-trip")
def trip() -> Durable[str]:
    """A flight, then the first of two hotels to confirm, then a payment that is declined."""
    yield from gather(book("flight").undo(release), sleep(0))
    won = yield from race(saga(hotel("a")), saga(hotel("b")))
    yield from decline()
    return str(won.value)


@workflow(name="undo-stay")
async def stay() -> None:
    """A coroutine that books and then waits forever; one undo has several steps, one fails."""

    async def goodbye(item: str) -> None:
        await release(item)
        await sleep(3600)
        await release(f"{item} for good")

    await book("room").undo(goodbye)
    await book("car").undo(refuse)
    await confirmed.wait()


async def test_trip_is_undone_in_reverse(store: Store) -> None:
    """The losing hotel is released immediately; when the payment fails the rest is undone, with the bank's error."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(trip(), id="t")
        await waiting(engine, "t", "event")
    async with WorkflowEngine(store) as engine:
        with anyio.fail_after(SOON):
            while len((await engine.runs.describe("t")).waits) < 2:
                pass
        await engine.send_event(confirmed, True, to="t", key="b")
        with pytest.raises(WorkflowFailed) as caught:
            await engine.handle("t").result(timeout=SOON)
        assert isinstance(caught.value.__cause__, Declined)
        assert failed_undos(caught.value) == ()
        assert (await engine.runs.describe("t")).owed_undos == ()
    assert set(done[:3]) == {"book flight", "book room a", "book room b"}
    assert done[3:] == [
        "book breakfast b", "release room a", "release breakfast b", "release room b", "release flight",
    ]  # fmt: skip
    assert handle.id == "t"


async def test_cancelled_stay_is_undone_over_restarts(store: Store) -> None:
    """A rollback with retries and timers continues in the next engine; failed undos are reported, the rest runs."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(stay(), id="s")
        await waiting(engine, "s", "event")
        owed = (await engine.runs.describe("s")).owed_undos
        assert [undo.undo for undo in owed] == ["undo-refuse", "goodbye"]
        assert await engine.cancel("s", "rain")
        assert (await waiting(engine, "s", "activity", attempt=2)).position == "u.0.0"
        # It is already cancelled; nothing interrupts the undos.
        assert await engine.cancel("s")
    clock.advance(60)
    async with WorkflowEngine(store, clock=clock) as engine:
        assert (await waiting(engine, "s", "timer")).position == "u.1.1"
        assert await engine.query_status("s") is WorkflowStatus.SUSPENDED
        assert [undo.message for undo in (await engine.runs.describe("s")).failed_undos] == ["[Errno 5] car is gone"]
        await move(engine, clock, 3600)
        with pytest.raises(WorkflowCancelled) as caught:
            await engine.handle("s").result(timeout=SOON)
        assert caught.value.reason == "rain"
        assert isinstance(caught.value.__cause__, Cancelled)
        (failed,) = failed_undos(caught.value)
        assert (failed.position, failed.step, failed.undo) == ("1", "undo-book(...)", "undo-refuse")
        assert (await engine.runs.describe("s")).failed_undos == (failed,)
    assert done == [
        "book room", "book car", "refuse car", "refuse car", "release room", "release room for good",
    ]  # fmt: skip


async def test_terminate_undoes_nothing(store: Store) -> None:
    """Terminate ends the workflow immediately, also in the middle of its undos."""
    async with WorkflowEngine(store, clock=ManualClock()) as engine:
        await engine.start(stay(), id="s")
        await waiting(engine, "s", "event")
        await engine.cancel("s")
        await waiting(engine, "s", "activity", attempt=2)
        assert await engine.terminate("s")
        with pytest.raises(WorkflowCancelled):
            await engine.handle("s").result(timeout=SOON)
    assert done == ["book room", "book car", "refuse car"]


@workflow(name="undo-short")
def short() -> Durable[None]:
    """Two bookings and a bank that declines."""
    for item in ("flight", "car"):
        yield from book(item).undo(release)
    yield from decline()


def test_undo_without_an_event_loop(store: Store) -> None:
    """The engine for services without a loop reports the same."""
    with SyncWorkflowEngine(store) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            engine.start(short(), id="t").result(timeout=SOON)
        assert isinstance(caught.value.__cause__, Declined)
        assert engine.runs.describe("t").failed_undos == ()
    assert done == ["book flight", "book car", "release car", "release flight"]
