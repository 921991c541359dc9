"""Pauses through the engine: questions that people list, answer, leave open and withdraw."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from durable import (
    CodecError,
    Durable,
    EngineConfig,
    InvalidValue,
    OpenPause,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    PayloadTooLarge,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    WrongType,
    activity,
    gather,
    pause,
    race,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting


@attrs.frozen
class Decision:
    """A person's decision."""

    ok: bool
    by: str


@activity(name="pauses-notify")
async def notify(text: str) -> str:
    """A step between two questions."""
    return text.upper()


def second_opinion(first: Decision) -> Durable[list[str]]:
    """A helper that asks twice, with an activity in between."""
    word = yield from pause(returns=str, prompt={"after": first.by})
    notified = yield from notify(word)
    last = yield from pause(returns=str, prompt=notified)
    return [notified, last]


@workflow(name="pauses-approval")
def approval(amount: int) -> Durable[list[Any]]:
    """A decision within three days; then two more answers, through a helper."""
    try:
        decision = yield from pause(returns=Decision, prompt=["approve?", amount], expires_after=timedelta(days=3))
    except PauseExpired as error:
        return ["expired", error.pause_id]
    except PauseCancelled as error:
        return ["cancelled", error.reason]
    return [decision.ok, *(yield from second_opinion(decision))]


@workflow(name="pauses-panel")
def panel() -> Durable[list[Any]]:
    """Three questions at once, one behind an activity and one in a race; then a last question."""

    def slow() -> Durable[int]:
        yield from notify("wait")
        return (yield from pause(returns=int, prompt="slow"))

    votes = yield from gather(
        pause(returns=int, prompt="plain"), slow(), race(pause(returns=int, prompt="raced"), slow())
    )
    return [votes[0], votes[1], votes[2].value, (yield from pause(returns=bool | None, prompt="sum"))]


async def prompts(engine: WorkflowEngine, **filters: Any) -> list[Any]:
    """The prompts that people see."""
    return [question.prompt for question in await engine.pauses.list(**filters)]


async def asked(engine: WorkflowEngine, prompt: Any) -> OpenPause:
    """The pause with this prompt, once there is one."""
    await waiting(engine, "w", "pause")
    while True:
        for question in await engine.pauses.list():
            if question.prompt == prompt:
                return question


@pytest.mark.anyio
async def test_a_decision_survives_restarts(store: Store) -> None:
    """A question is listed as soon as the start returns and after every restart, and its answers are values."""
    async with WorkflowEngine(store) as engine:
        await engine.start(approval(5), id="w")
        (first,) = await engine.pauses.list()
        assert (first.workflow_id, first.name, first.pause_id) == ("w", "pauses-approval", "0")
        assert (first.prompt, first.expects) == (["approve?", 5], "Decision")
        assert first.expires_at == first.since + timedelta(days=3)
    async with WorkflowEngine(store) as engine:
        assert await engine.pauses.list() == [first]
        await engine.pauses.resume("w", "0", Decision(True, "ann"))
        assert await prompts(engine, workflow_id="w") == [{"after": "ann"}]
    async with WorkflowEngine(store) as engine:
        await engine.pauses.resume("w", "1", "fine")
        last = await asked(engine, "FINE")
        await engine.pauses.resume("w", last.pause_id, "done")
        assert await engine.handle("w").result(timeout=SOON) == [True, "FINE", "done"]
        assert await engine.pauses.list() == []


@pytest.mark.anyio
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_a_panel_answers_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    """Parallel pauses, also behind an activity and in a race, can be answered in any order; the loser is withdrawn."""
    async with WorkflowEngine(store, config=EngineConfig(max_loaded_workflows=1)) as engine:
        handle = await engine.start(panel(), id="w")
        await asked(engine, "slow")
        while len(open_ones := await engine.pauses.list()) < 4:
            pass
        by_place = {question.pause_id: question for question in open_ones}
        places = ["0.0.0", "0.1.1", "0.2.0.0.0"]
        assert [by_place[place].prompt for place in places] == ["plain", "slow", "raced"]
        for index in order:
            await engine.pauses.resume("w", places[index], index)
        assert await prompts(engine) == ["sum"]
        with pytest.raises(PauseNotFound):
            await engine.pauses.resume("w", "0.2.0.1.1", 9)
        await engine.pauses.resume("w", "1", None)
        assert await handle.result(timeout=SOON) == [0, 1, 2, None]


@pytest.mark.anyio
async def test_expiry_and_taking_back(store: Store) -> None:
    """An expired or withdrawn pause raises in the body, and refuses later answers."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        late = await engine.start(approval(1), id="late")
        back = await engine.start(approval(2), id="back")
        await engine.pauses.cancel("back", "0", "asked in error")
        assert await back.result(timeout=SOON) == ["cancelled", "asked in error"]
        await move(engine, clock, timedelta(days=3) - timedelta(seconds=1))
        assert await prompts(engine) == [["approve?", 1]]
        await move(engine, clock, 1)
        assert await late.result(timeout=SOON) == ["expired", "0"]
        with pytest.raises(PauseExpired):
            await engine.pauses.resume("late", "0", Decision(True, "ann"))
        with pytest.raises(PauseCancelled, match="asked in error"):
            await engine.pauses.resume("back", "0", Decision(True, "ann"))
        assert await engine.pauses.list() == []


@pytest.mark.anyio
async def test_refusals_leave_the_pause_open(store: Store) -> None:
    """A wrong answer is refused before anything is written, and the right answer is accepted afterwards."""
    async with WorkflowEngine(store, config=EngineConfig(max_payload_bytes=4096)) as engine:
        await engine.start(approval(5), id="w")
        before = await engine.pauses.list()
        for bad in ("yes", {"ok": True, "by": "ann"}, None, Decision("yes", "ann")):  # type: ignore[arg-type]
            with pytest.raises(CodecError, match="pause: answer"):
                await engine.pauses.resume("w", "0", bad)
        with pytest.raises(PayloadTooLarge, match="pause: answer"):
            await engine.pauses.resume("w", "0", Decision(True, "x" * 5000))
        assert (await engine.pauses.list(), await engine.runs.history("w")) == (before, [])
        await engine.pauses.resume("w", "0", Decision(False, "bob"))
        for _ in range(2):
            with pytest.raises(PauseAlreadyAnswered):
                await engine.pauses.resume("w", "0", Decision(False, "bob"))
        await engine.terminate("w")
        with pytest.raises(WorkflowTerminated):
            await engine.pauses.resume("w", "1", "too late")


@pytest.mark.anyio
async def test_bad_arguments(store: Store) -> None:
    """Senseless ids, limits and cursors are refused with our errors."""
    async with WorkflowEngine(store) as engine:
        for arguments, error in [
            ({"limit": 0}, InvalidValue), ({"limit": True}, WrongType), ({"after": -1}, InvalidValue),
            ({"after": "0"}, WrongType), ({"name": 5}, WrongType), ({"workflow_id": ""}, InvalidValue),
            ({"workflow_id": "nobody"}, WorkflowNotFound),
        ]:  # fmt: skip
            with pytest.raises(error):
                await engine.pauses.list(**arguments)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match="pause id"):
            await engine.pauses.resume("w", "", 1)
        with pytest.raises(WrongType, match="reason"):
            await engine.pauses.cancel("w", "0", 5)  # type: ignore[arg-type]
        with pytest.raises(WorkflowNotFound):
            await engine.pauses.resume("nobody", "0", 1)


@pytest.mark.anyio
async def test_describe_and_history_know_pauses(store: Store) -> None:
    """A paused workflow is described as such, and its history shows the answer."""
    async with WorkflowEngine(store) as engine:
        await engine.start(approval(5), id="w")
        (wait,) = (await engine.runs.describe("w")).waits
        (question,) = await engine.pauses.list()
        assert (wait.kind, wait.since, wait.until, wait.position) == (
            "pause",
            question.since,
            question.expires_at,
            question.pause_id,
        )
        await engine.pauses.resume("w", "0", Decision(True, "ann"))
        (entry,) = await engine.runs.history("w")
        assert (entry.kind.value, entry.position, entry.outcome) == ("pause", "0", '{"ok":true,"by":"ann"}')


@pytest.mark.anyio
async def test_a_damaged_question_costs_itself(file: Path) -> None:
    """A prompt that is not valid JSON is left out of the list; the others are listed, and it can be answered."""
    async with WorkflowEngine(file) as engine:
        for id in "ab":
            await engine.start(approval(5), id=id)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE event_wait SET prompt = 'broken' WHERE serial = (SELECT min(serial) FROM event_wait)"
        )
    async with WorkflowEngine(file) as engine:
        assert [question.workflow_id for question in await engine.pauses.list()] == ["b"]
        await engine.pauses.resume("a", "0", Decision(True, "ann"))
        assert await engine.query_status("a") is WorkflowStatus.SUSPENDED


def test_pauses_without_an_event_loop(store: Store) -> None:
    """The same group for services without a loop."""
    with SyncWorkflowEngine(store) as engine:
        handle = engine.start(approval(5), id="w")
        engine.start(approval(6), id="v")
        assert [question.workflow_id for question in engine.pauses.list(name="pauses-approval", limit=1)] == ["w"]
        engine.pauses.cancel("v", "0")
        with pytest.raises(CodecError):
            engine.pauses.resume("w", "0", "yes")
        engine.pauses.resume("w", "0", Decision(True, "ann"))
        engine.pauses.resume("w", "1", "fine")
        while not (pauses := engine.pauses.list(workflow_id="w")):
            pass
        engine.pauses.resume("w", pauses[0].pause_id, "done")
        assert handle.result(timeout=SOON) == [True, "FINE", "done"]
