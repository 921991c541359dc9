"""Events that are sent by their name take their settings from the `Event` that the engine knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from durable import (
    CodecError,
    DeadLetterReason,
    Delivered,
    Durable,
    Event,
    Queued,
    SyncWorkflowEngine,
    UnknownEvent,
    WorkflowClient,
    WorkflowDef,
    WorkflowEngine,
    workflow,
)

pytestmark = pytest.mark.anyio
approval = Event[bool]("named.approval")


class News:
    """Events that the module holds in a class."""

    price = Event[int]("named.price", consume_on_read=False, expire_after=timedelta(hours=1))


@workflow(name="named.approved")
def approved() -> Durable[bool]:
    """Waits for an approval."""
    return (yield from approval.wait())


@workflow(name="named.priced")
def priced(region: str) -> Durable[int]:
    """Waits for an event whose name is computed."""
    return (yield from Event[int](f"named.price-{region}", consume_on_read=False).wait())


def enclosed() -> WorkflowDef[[], int]:
    """A workflow whose event is a variable of the function around it."""
    inner = Event[int]("named.inner", consume_on_read=False)

    @workflow(name="named.enclosed")
    def enclosed_flow() -> Durable[int]:
        return (yield from inner.wait())

    return enclosed_flow


WORKFLOWS = (approved, priced, enclosed())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A path for a store."""
    return tmp_path / "store.db"


@pytest.fixture
async def engine(store: Path) -> AsyncIterator[WorkflowEngine]:
    """An engine on the store."""
    async with WorkflowEngine(store, workflows=WORKFLOWS) as running:
        yield running


@pytest.fixture(params=["engine", "client"])
async def sender(request: pytest.FixtureRequest, engine: WorkflowEngine, store: Path) -> AsyncIterator[WorkflowClient]:
    """Whoever sends: the engine itself, or a client."""
    if request.param == "engine":
        yield engine
        return
    async with WorkflowClient(store) as client:
        yield client


async def test_settings_are_those_of_the_event(engine: WorkflowEngine, sender: WorkflowClient) -> None:
    """The payload arrives; a broadcast stays one, and expires when its `Event` says."""
    handle = await engine.start(approved(), id="w")
    assert await sender.events.send("named.approval", True, to="w") == Delivered(("w",))
    assert await handle.result() is True
    assert await sender.events.send("named.price", 5) == Queued()
    (price,) = await engine.events.list(name="named.price")
    assert price.is_broadcast
    assert price.expires_at == price.sent_at + timedelta(hours=1)
    await sender.events.send("named.inner", 5)
    (inner,) = await engine.events.list(name="named.inner")
    assert (inner.is_broadcast, inner.expires_at) == (True, None)


async def test_payload_of_another_type_is_refused(engine: WorkflowEngine, sender: WorkflowClient) -> None:
    """Whether anyone waits or not: nothing is stored, and nothing becomes a dead letter."""
    with pytest.raises(CodecError, match=r"named\.approval: payload"):
        await sender.events.send("named.approval", {"no": "bool"})
    assert await engine.events.list() == []


async def test_unknown_name_is_refused_unless_forced(engine: WorkflowEngine, sender: WorkflowClient) -> None:
    """The error names the event that was probably meant. A forced event waits for one taker."""
    with pytest.raises(UnknownEvent) as refused:
        await sender.events.send("named.aproval", True)
    assert (refused.value.name, refused.value.meant) == ("named.aproval", "named.approval")
    with pytest.raises(UnknownEvent, match=r"named 'other', so nothing was stored"):
        await sender.events.send("other")
    assert await engine.events.list() == []
    assert await sender.events.send("other", force=True) == Queued()
    (event,) = await engine.events.list()
    assert (event.name, event.is_broadcast, event.expires_at) == ("other", False, None)


async def test_event_that_a_run_waits_for_is_known(engine: WorkflowEngine, sender: WorkflowClient) -> None:
    """A computed name is in no code, but in the body that waits: every waiter gets the broadcast."""
    for id in ("a", "b"):
        await engine.start(priced("eu"), id=id)
    assert await sender.events.send("named.price-eu", 7) == Delivered(("a", "b"))
    with pytest.raises(UnknownEvent):
        await sender.events.send("named.price-us", 7)


async def test_event_that_an_evicted_run_waits_for_is_known(store: Path) -> None:
    """After a restart no body is in memory; the one that waits is rebuilt to look at its event."""
    async with WorkflowEngine(store, workflows=WORKFLOWS) as engine:
        await engine.start(priced("eu"), id="a")
    async with WorkflowEngine(store, workflows=WORKFLOWS) as engine:
        assert await engine.events.send("named.price-eu", 7) == Delivered(("a",))
        assert await engine.handle("a").result() == 7


async def test_kept_event_gets_its_settings_from_the_next_engine(store: Path) -> None:
    """Without an engine every name is kept; the engine decides, and an unknown name becomes a dead letter."""
    async with WorkflowEngine(store, workflows=WORKFLOWS):
        pass
    async with WorkflowClient(store) as client:
        for name in ("named.price", "named.nothing"):
            assert await client.events.send(name, 5) == Queued()
        assert await client.events.send("named.forced", 5, force=True) == Queued()
    async with WorkflowEngine(store, workflows=WORKFLOWS) as engine:
        price, forced = await engine.events.list()
        assert (price.name, price.is_broadcast, price.expires_at is None) == ("named.price", True, False)
        assert (forced.name, forced.is_broadcast) == ("named.forced", False)
        (letter,) = await engine.dead_letters.list()
        assert (letter.name, letter.reason) == ("named.nothing", DeadLetterReason.REFUSED)
        assert "no workflow of this engine has an Event named 'named.nothing'" in (letter.detail or "")


async def test_repeat_of_an_event_id_gets_the_first_answer(sender: WorkflowClient) -> None:
    """As with `send_event`."""
    first = await sender.events.send("named.price", 5, event_id="e")
    assert await sender.events.send("named.price", 5, event_id="e") == first
    assert len(await sender.events.list()) == 1


def test_sync_engine_sends_by_name() -> None:
    """The sync class has it too."""
    with SyncWorkflowEngine("memory://", workflows=WORKFLOWS) as engine:
        engine.start(approved(), id="w")
        assert engine.events.send("named.approval", False, to="w") == Delivered(("w",))
