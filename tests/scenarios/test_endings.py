"""How a workflow ends, and what its handle says about it."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from durable import (
    Cancelled,
    CodecError,
    Durable,
    Event,
    Retry,
    WorkflowAlreadyExists,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio
answer = Event[int]("endings-answer")


class Mishap(Exception):
    """An error of the workflow itself."""


@activity
async def note(text: str) -> str:
    """Work to do while cleaning up."""
    return text


@workflow(name="endings-wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@workflow(name="endings-fail")
def fail(text: str) -> Durable[None]:
    """Fail at once."""
    yield from sleep(0)
    raise Mishap(text)


@workflow(name="endings-clean-up")
def clean_up(stubborn: bool) -> Durable[str]:
    """Clean up with an activity when cancelled; if stubborn, then return as if nothing had happened."""
    try:
        yield from answer.wait()
    except Cancelled as error:
        yield from note(f"cleaned up: {error.reason}")
        if not stubborn:
            raise
    return "no"


@workflow(name="endings-take")
def take(number: int, tags: list[str]) -> Durable[int]:
    """Take arguments."""
    yield from answer.wait()
    return number


async def test_failure_carries_the_original_error(store: Store) -> None:
    """`WorkflowFailed` names type and message, and its cause is the original error, now and in the next engine."""
    async with WorkflowEngine(store) as engine:
        await engine.start(fail("broken"), id="a")
    async with WorkflowEngine(store) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await engine.handle("a").result(timeout=SOON)
        error = caught.value
        assert (error.workflow_id, error.error_type.rpartition(".")[2], error.message) == ("a", "Mishap", "broken")
        assert type(error.__cause__) is Mishap
        assert await engine.query_status("a") is WorkflowStatus.FAILED
        assert await engine.query_result("a") is None


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), MemoryError(), Cancelled("me")])
async def test_body_may_raise_anything(error: BaseException) -> None:
    """Whatever a body raises fails that workflow, and the coordinator continues with the others."""

    @workflow(name="raises-anything")
    def body() -> Durable[None]:
        yield from sleep(0)
        raise error

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed):
            await (await engine.start(body())).result(timeout=SOON)
        handle = await engine.start(wait_for_answer(), id="a")
        await engine.send_event(answer, 1, to="a")
        assert await handle.result(timeout=SOON) == 1


async def test_result_that_cannot_be_stored_fails_the_workflow(store: Store) -> None:
    """A result that does not survive JSON is a `CodecError` of that workflow."""

    @workflow(name="bad-result")
    def body() -> Durable[object]:
        yield from sleep(0)
        return object()

    async with WorkflowEngine(store) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(body())).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, CodecError)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_cancel_runs_the_cleanup_and_always_wins(store: Store, stubborn: bool) -> None:
    """`Cancelled` is raised at the wait, the cleanup's activities run, and the end is CANCELLED whatever it returns."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(clean_up(stubborn), id="a")
        assert await engine.cancel("a", reason="too late")
        with pytest.raises(WorkflowCancelled) as caught:
            await handle.result(timeout=SOON)
        assert caught.value.reason == "too late"
        assert [entry.outcome for entry in await engine.runs.history("a")] == [
            '"too late"', '"cleaned up: too late"',
        ]  # fmt: skip
        assert not await engine.cancel("a")
        assert not await handle.cancel()


async def test_cancel_is_remembered_over_a_restart(store: Store) -> None:
    """A workflow that was cancelled and has not finished its cleanup continues it in the next engine."""
    started, runs = anyio.Event(), list[int]()

    @activity
    async def slow() -> None:
        runs.append(1)
        if len(runs) == 1:
            started.set()
            await anyio.sleep_forever()

    @workflow(name="slow-cleanup")
    def body() -> Durable[None]:
        try:
            yield from answer.wait()
        finally:
            yield from slow()

    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.start(body(), id="a")
        assert await engine.cancel("a", reason="why")
        await started.wait()
        await engine.shutdown(drain=0)
    async with WorkflowEngine(store, workflows=[body]) as engine:
        with pytest.raises(WorkflowCancelled, match="why"):
            await engine.handle("a").result(timeout=SOON)
    assert runs == [1, 1]


async def test_cancel_reaches_every_branch(store: Store) -> None:
    """All branches of a gather are cancelled and each cleans up."""
    cleaned: list[int] = []

    def branch(number: int) -> Durable[None]:
        try:
            yield from answer.wait()
        finally:
            cleaned.append(number)

    @workflow(name="branches")
    def body() -> Durable[None]:
        yield from gather(branch(1), branch(2), sleep(timedelta(days=1)))

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(body(), id="a")
        await engine.cancel("a")
        with pytest.raises(WorkflowCancelled):
            await handle.result(timeout=SOON)
        assert (await engine.runs.describe("a")).summary.wake_at is None
    assert cleaned == [1, 2]


async def test_terminate_ends_without_cleanup(store: Store) -> None:
    """A terminated workflow ends immediately without its cleanup, and events to it become dead letters."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(clean_up(False), id="a")
        await engine.send_event(Event[int]("endings-other"), 5, to="a")
        assert await engine.terminate("a", reason="axe")
        with pytest.raises(WorkflowCancelled, match="axe"):
            await handle.result(timeout=SOON)
        assert await engine.runs.history("a") == []
        assert [letter.name for letter in await engine.dead_letters.list()] == ["endings-other"]
        assert not await engine.terminate("a")


async def test_result_waits_no_longer_than_asked(store: Store) -> None:
    """A timeout of zero expires immediately, a negative one is refused, and the workflow notices neither."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(wait_for_answer(), id="a")
        for timeout in (0, 0.01, timedelta(milliseconds=1)):
            with pytest.raises(TimeoutError):
                await handle.result(timeout=timeout)
        for bad in (-1, timedelta(seconds=-1), float("nan")):
            with pytest.raises(ValueError):
                await handle.result(timeout=bad)
        with pytest.raises(TypeError):
            await handle.result(timeout="1")  # type: ignore[arg-type]
        await engine.send_event(answer, 5, to="a")
        assert await handle.result(timeout=SOON) == 5


async def test_many_may_wait_for_one_result(store: Store) -> None:
    """All waiting callers get the result; one that was cancelled meanwhile does not delay them."""
    results: list[int] = []
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(wait_for_answer(), id="a")

        async def wait() -> None:
            results.append(await handle.result(timeout=SOON))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(wait)
            with anyio.move_on_after(0):
                await handle.result()
            await engine.send_event(answer, 5, to="a")
    assert results == [5] * 20


async def test_unknown_ids_get_plain_answers(store: Store) -> None:
    """A handle of an unknown id raises when it is used; queries about the id answer None."""
    async with WorkflowEngine(store) as engine:
        assert await engine.query_status("nobody") is None
        assert await engine.query_result("nobody") is None
        assert await engine.handle("nobody").status() is None
        for ask in (engine.handle("nobody").result, engine.handle("nobody").cancel):
            with pytest.raises(WorkflowNotFound):
                await ask()
        for command in (engine.cancel, engine.terminate, engine.runs.history, engine.runs.describe):
            with pytest.raises(WorkflowNotFound):
                await command("nobody")


async def test_same_start_finds_the_first(store: Store) -> None:
    """The same id, name and arguments give the same run, before and after its end; any other start is refused."""
    async with WorkflowEngine(store) as engine:
        first = await engine.start(take(1, ["x"]), id="a")
        for again in (take(1, ["x"]), take(number=1, tags=["x"])):
            assert (await engine.start(again, id="a")).id == first.id
        for other in (take(2, ["x"]), take(1, []), wait_for_answer()):
            with pytest.raises(WorkflowAlreadyExists):
                await engine.start(other, id="a")
        await engine.send_event(answer, 0, to="a")
        assert await (await engine.start(take(1, ["x"]), id="a")).result(timeout=SOON) == 1
        assert await engine.runs.count() == 1


async def test_failed_retry_policy_is_checked_when_built() -> None:
    """Senseless policies raise `ValueError` where they are written."""
    for senseless in ({"max_attempts": 0}, {"first_delay": -1}, {"factor": 0.5}, {"jitter": 2.0}):
        with pytest.raises(ValueError):
            Retry(**senseless)
