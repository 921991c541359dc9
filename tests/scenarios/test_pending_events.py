"""Events that no workflow has taken yet can be listed and removed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from durable import (
    Durable,
    Event,
    EventNotFound,
    InvalidValue,
    PendingEventInfo,
    Queued,
    SyncWorkflowEngine,
    WorkflowEngine,
    WrongType,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import Store, move

note = Event[str]("pending.note")
brief = Event[list[int]]("pending.brief", expire_after=60)
news = Event[str]("pending.news", consume_on_read=False)


@workflow(name="pending.sleeper")
def sleeper() -> Durable[str]:
    """Sleeps, then takes a note."""
    yield from sleep(3600)
    return (yield from note.wait())


@pytest.mark.anyio
async def test_pending_events_are_shown_whole(store: Store) -> None:
    """A pending event shows its name, key, target, payload as a value, times, and whether it is a broadcast."""
    clock = ManualClock()
    now = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=clock.now())
    async with WorkflowEngine(store, workflows=[sleeper], clock=clock) as engine:
        await engine.start(sleeper(), id="s")
        await engine.send_event(brief, [1, 2], to="s", key="k")
        await engine.send_event(note, "early", to="later", allow_unstarted=True)
        await engine.send_event(news, "today")
        first, second, third = await engine.events.list()
        assert first == PendingEventInfo(
            id=first.id, name="pending.brief", key="k", to="s", payload=[1, 2], sent_at=now,
            expires_at=now + timedelta(seconds=60), is_broadcast=False,
        )  # fmt: skip
        assert (second.to, second.key, second.expires_at) == ("later", None, None)
        assert (third.to, third.payload, third.is_broadcast) == (None, "today", True)


@pytest.mark.anyio
async def test_pending_events_are_filtered_and_paged(store: Store) -> None:
    """They can be selected by name and by target, started or not, and listed page by page."""
    async with WorkflowEngine(store, workflows=[sleeper]) as engine:
        await engine.start(sleeper(), id="s")
        for number in range(3):
            await engine.send_event(note, f"{number}", to="s")
        await engine.send_event(note, "early", to="later", allow_unstarted=True)
        await engine.send_event(brief, [])

        async def payloads(**wanted: object) -> list[object]:
            return [event.payload for event in await engine.events.list(**wanted)]  # type: ignore[arg-type]

        assert await payloads(name="pending.note") == ["0", "1", "2", "early"]
        assert await payloads(to="s", name="pending.brief") == []
        assert await payloads(to="later") == ["early"]
        first, second = await engine.events.list(limit=2)
        assert [first.payload, second.payload] == ["0", "1"]
        assert await payloads(limit=2, after=second.id) == ["2", "early"]
        for wrong, error in (({"limit": 0}, InvalidValue), ({"after": "x"}, WrongType), ({"name": 1}, WrongType)):
            with pytest.raises(error):
                await engine.events.list(**wrong)


@pytest.mark.anyio
async def test_removed_event_is_not_taken(store: Store) -> None:
    """A removed event is gone for its workflow; removing it again is `EventNotFound`."""
    clock = ManualClock()
    async with WorkflowEngine(store, workflows=[sleeper], clock=clock) as engine:
        handle = await engine.start(sleeper(), id="s")
        assert await engine.send_event(note, "wrong", to="s") == Queued()
        assert await engine.send_event(note, "right", to="s") == Queued()
        (wrong, _) = await engine.events.list(to="s")
        await engine.events.remove(wrong.id)
        with pytest.raises(EventNotFound) as caught:
            await engine.events.remove(wrong.id)
        assert caught.value.event_id == wrong.id
        await move(engine, clock, 3600)
        assert await handle.result() == "right"
        assert await engine.dead_letters.list() == []


def test_pending_events_without_a_loop() -> None:
    """The engine for services without a loop lists and removes them too."""
    with SyncWorkflowEngine("memory://", workflows=[sleeper]) as engine:
        engine.send_event(news, "today")
        (event,) = engine.events.list(name="pending.news")
        engine.events.remove(event.id)
        assert engine.events.list() == []


@pytest.mark.anyio
async def test_event_that_has_expired_is_not_shown(store: Store) -> None:
    """An expired event is not listed, even before the sweep; the page is filled with others."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.send_event(brief, [1])
        await engine.send_event(note, "kept")
        assert [event.name for event in await engine.events.list(limit=1)] == ["pending.brief"]
        clock.advance(60)
        assert [event.name for event in await engine.events.list(limit=1)] == ["pending.note"]
