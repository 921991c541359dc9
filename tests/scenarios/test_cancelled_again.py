"""A workflow that is cancelled more than once: each cancel is raised at the wait open at that time."""

from __future__ import annotations

import pytest

from durable import (
    Cancelled,
    Durable,
    Event,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    failed_undos,
    gather,
    race,
    spawn,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
never = Event[bool]("again-never")
released = Event[bool]("again-released")
heard: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_heard() -> None:
    heard.clear()


@activity(name="again-hear")
async def hear(message: str) -> str:
    """Notes what a body caught."""
    heard.append(message)
    return message


@workflow(name="again-stubborn")
def stubborn() -> Durable[None]:
    """Catches two cancellations and waits again."""
    for number in range(2):
        try:
            yield from never.wait()
        except Cancelled as error:
            yield from hear(f"{number}: {error.reason}")
    yield from never.wait()


@workflow(name="again-branches")
def branches() -> Durable[None]:
    """Cleans up in several branches, which takes long."""
    try:
        yield from never.wait()
    except Cancelled:
        yield from gather(never.wait(), race(left=never.wait(), right=never.wait()))


def _unbook(_: str) -> Durable[None]:
    yield from released.wait()


@workflow(name="again-undoing")
def undoing() -> Durable[None]:
    """Owes an undo that waits."""
    yield from hear("booked").undo(_unbook)
    yield from never.wait()


@workflow(name="again-parent")
def parent() -> Durable[None]:
    """Cancels its child twice."""
    child = yield from spawn(stubborn(), id="child")
    yield from child.cancel("one")
    yield from child.cancel("two")


FLOWS = [stubborn, branches, undoing, parent]


async def test_every_cancel_is_raised_again(store: Store) -> None:
    """A body that catches `Cancelled` and waits again gets the next cancel with its reason, even after a restart."""
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        await engine.start(stubborn(), id="a")
        assert await engine.cancel("a", "one") is True
        await waiting(engine, "a", "event")
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        assert await engine.cancel("a", "two") is True
        await waiting(engine, "a", "event")
        assert (await engine.runs.describe("a")).cancel_requested is True
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        assert await engine.cancel("a", "three") is True
        with pytest.raises(WorkflowCancelled, match="three"):
            await engine.handle("a").result(timeout=SOON)
        assert await engine.cancel("a", "four") is False
    assert heard == ["0: one", "1: two"]


async def test_second_cancel_ends_a_cleanup_in_branches(store: Store) -> None:
    """A second cancel ends a cleanup that waits in several branches."""
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        await engine.start(branches(), id="a")
        assert await engine.cancel("a") is True
        assert len((await engine.runs.describe("a")).waits) == 3
        assert await engine.cancel("a", "now") is True
        with pytest.raises(WorkflowCancelled, match="now"):
            await engine.handle("a").result(timeout=SOON)


async def test_second_cancel_leaves_undos_alone(store: Store) -> None:
    """Cancels never interrupt an undo that is running."""
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        await engine.start(undoing(), id="a")
        await waiting(engine, "a", "event")
        for _ in range(3):
            assert await engine.cancel("a", "please") is True
            assert [wait.name for wait in (await engine.runs.describe("a")).waits] == ["again-released"]
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        await engine.send_event(released, True, to="a")
        with pytest.raises(WorkflowCancelled, match="please") as caught:
            await engine.handle("a").result(timeout=SOON)
        assert failed_undos(caught.value) == ()


async def test_parent_cancels_its_child_again(store: Store) -> None:
    """Each `child.cancel(...)` of a body is raised in the child."""
    async with WorkflowEngine(store, workflows=FLOWS) as engine:
        await engine.start(parent(), id="p")
        await engine.handle("p").result(timeout=SOON)
        with pytest.raises(WorkflowCancelled, match="two"):
            await engine.handle("child").result(timeout=SOON)
        assert await engine.query_status("p") is WorkflowStatus.SUCCEEDED
