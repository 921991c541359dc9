"""Activities: where they run, how long they may take, and how the workflow sees their errors."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import anyio.from_thread
import pytest

from durable import (
    ActivityFailed,
    ActivityInfo,
    ActivityTimedOut,
    CodecError,
    Durable,
    EngineConfig,
    EntryStatus,
    Event,
    OperationMisused,
    PayloadTooLarge,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    activity,
    activity_info,
    call,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
go_on = Event[None]("activities-go-on")


class PaymentDeclined(Exception):
    """An error of the service's own, with two arguments."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason, code)
        self.code = code


class Odd(BaseException):
    """An error that is not an `Exception`."""


async def test_async_activity_runs_on_the_loop_and_a_plain_one_in_a_thread() -> None:
    """An `async def` runs in the loop's thread; a `def`, also a plain function through `call`, in another."""
    threads: list[int] = []

    @activity
    async def on_loop() -> None:
        await anyio.lowlevel.checkpoint()
        threads.append(threading.get_ident())

    def in_thread() -> None:
        threads.append(threading.get_ident())

    @workflow(name="where")
    def where() -> Durable[None]:
        yield from on_loop()
        yield from activity(in_thread)()
        yield from call(in_thread)

    async with WorkflowEngine("memory://") as engine:
        await (await engine.start(where())).result(timeout=SOON)
    assert threads[0] == threading.get_ident()
    assert threading.get_ident() not in threads[1:]
    assert len(threads) == 3


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_activity_that_takes_too_long_times_out(store: Store, is_async: bool) -> None:
    """An attempt beyond its timeout is recorded as `ActivityTimedOut`, a `TimeoutError`, for both kinds."""
    gate = threading.Event()

    async def async_stuck() -> None:
        await anyio.sleep_forever()

    def stuck() -> None:
        gate.wait()

    @workflow(name="too-long")
    def too_long() -> Durable[str]:
        try:
            yield from call(async_stuck if is_async else stuck, name="stuck", retry=Retry.never(), timeout=0.02)
        except ActivityTimedOut as error:
            return f"{error.activity} {error.seconds}"
        return "in time"

    async with WorkflowEngine(store) as engine:
        try:
            handle = await engine.start(too_long(), id="a")
            assert await handle.result(timeout=SOON) == "stuck 0.02"
            assert issubclass(ActivityTimedOut, TimeoutError)
            assert [entry.status for entry in await engine.runs.history("a")] == [EntryStatus.ERROR]
        finally:
            gate.set()


async def test_activity_error_is_the_original_class_on_the_first_run_and_on_replay(store: Store) -> None:
    """On replay the workflow catches the same error as on the first run: same class, same arguments."""
    caught: list[tuple[str, int]] = []
    calls: list[int] = []

    @activity(retry=Retry.never())
    async def pay() -> None:
        calls.append(1)
        raise PaymentDeclined("no funds", 51)

    @workflow(name="declined")
    def declined() -> Durable[int]:
        try:
            yield from pay()
        except PaymentDeclined as error:
            caught.append((error.args[0], error.code))
        yield from go_on.wait()
        return len(caught)

    async with WorkflowEngine(store, workflows=[declined]) as engine:
        await engine.start(declined(), id="a")
        await waiting(engine, "a", "event")
    async with WorkflowEngine(store, workflows=[declined]) as engine:
        await engine.send_event(go_on, None, to="a")
        await engine.handle("a").result(timeout=SOON)
    assert caught == [("no funds", 51)] * 2
    assert calls == [1]


async def test_activity_error_of_a_local_class_is_activity_failed(store: Store) -> None:
    """An error whose class cannot be found again arrives as `ActivityFailed` with its name, message and traceback."""

    class Local(Exception):
        pass

    @activity(retry=Retry.never())
    async def fails() -> None:
        raise Local("deep inside")

    @workflow(name="local-error")
    def local_error() -> Durable[list[str]]:
        try:
            yield from fails()
        except ActivityFailed as error:
            return [error.error_type.rpartition(".")[2], error.message, error.traceback]
        return []

    async with WorkflowEngine(store) as engine:
        name, message, trace = await (await engine.start(local_error())).result(timeout=SOON)
    assert (name, message) == ("Local", "deep inside")
    assert "raise Local" in trace


ODD_ERRORS = [SystemExit(3), Odd("odd"), asyncio.CancelledError(), StopIteration(1), MemoryError()]
# A GeneratorExit that leaves a worker thread needs a test: asyncio closes the task that waits for the thread.
RAISED = [*((error, False) for error in ODD_ERRORS), *((error, True) for error in [GeneratorExit(), *ODD_ERRORS])]


@pytest.mark.parametrize(("error", "is_async"), RAISED, ids=lambda value: str(value and type(value).__name__))
async def test_activity_may_raise_anything(error: BaseException, is_async: bool) -> None:
    """Whatever an activity raises is recorded as its failure, and the engine keeps working."""

    async def fails_async() -> None:
        raise error

    def fails() -> None:
        raise error

    @workflow(name="raises")
    def raises() -> Durable[None]:
        yield from call(fails_async if is_async else fails, name="fails", retry=Retry.never())

    @workflow(name="fine")
    def fine() -> Durable[int]:
        return (yield from call(int, "7"))

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(raises(), id="a")).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, Exception)
        assert [entry.status for entry in await engine.runs.history("a")] == [EntryStatus.ERROR]
        assert await (await engine.start(fine())).result(timeout=SOON) == 7


async def test_activity_that_raises_keyboard_interrupt_in_a_thread_fails_alone() -> None:
    """No signal arrives in a worker thread, so a `KeyboardInterrupt` there is the activity's own failure."""

    def interrupted() -> None:
        raise KeyboardInterrupt("mine")

    @workflow(name="interrupted")
    def body() -> Durable[None]:
        yield from call(interrupted, retry=Retry.never())

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match="KeyboardInterrupt"):
            await (await engine.start(body())).result(timeout=SOON)


@pytest.mark.parametrize(
    ("value", "error"),
    [(object(), CodecError), (lambda: 1, CodecError), ("x" * 2000, PayloadTooLarge), ("\ud800", CodecError)],
    ids=["object", "lambda", "too large", "surrogate"],
)
async def test_result_that_cannot_be_stored_fails_without_a_retry(
    store: Store, value: object, error: type[Exception]
) -> None:
    """A value that cannot be stored fails the activity at the first attempt: retrying would not help."""
    calls: list[int] = []

    @activity(retry=Retry(max_attempts=5, first_delay=0))
    async def give() -> Any:
        calls.append(1)
        return value

    @workflow(name="give")
    def body() -> Durable[None]:
        yield from give()

    async with WorkflowEngine(store, config=EngineConfig(max_payload_bytes=1000)) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(body())).result(timeout=SOON)
    assert type(caught.value.__cause__) is error
    assert calls == [1]


async def test_arguments_and_events_that_are_too_large_are_refused(store: Store) -> None:
    """An argument, an event or a workflow's own result over the limit is `PayloadTooLarge`, and nothing is stored."""

    @workflow(name="echo")
    def echo(text: str) -> Durable[str]:
        yield from sleep(0)
        return text * 10

    async with WorkflowEngine(store, config=EngineConfig(max_payload_bytes=1000)) as engine:
        with pytest.raises(PayloadTooLarge, match="max_payload_bytes=1000"):
            await engine.start(echo("x" * 1000), id="a")
        with pytest.raises(WorkflowNotFound):
            await engine.handle("a").result()
        with pytest.raises(PayloadTooLarge):
            await engine.send_event(Event[str]("large"), "x" * 1000)
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(echo("x" * 500))).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, PayloadTooLarge)


async def test_activity_info_is_stable_over_attempts(store: Store) -> None:
    """Each attempt knows its number, and all of them share one idempotency key, in threads as well."""
    seen: list[ActivityInfo] = []

    @activity(retry=Retry(max_attempts=3, first_delay=0))
    async def flaky() -> None:
        seen.append(activity_info())
        if len(seen) < 3:
            raise ValueError("again")

    @activity
    def plain() -> None:
        seen.append(activity_info())

    @workflow(name="info")
    def body() -> Durable[None]:
        yield from flaky()
        yield from plain()

    async with WorkflowEngine(store) as engine:
        await (await engine.start(body(), id="a")).result(timeout=SOON)
    assert [(info.workflow_id, info.position, info.attempt) for info in seen] == [
        ("a", "0", 1), ("a", "0", 2), ("a", "0", 3), ("a", "1", 1),
    ]  # fmt: skip
    assert len({info.idempotency_key for info in seen[:3]}) == 1
    assert seen[3].idempotency_key != seen[0].idempotency_key
    with pytest.raises(OperationMisused):
        activity_info()


async def test_activity_may_use_the_engine() -> None:
    """An activity may start workflows and query them."""

    @workflow(name="other")
    def other(number: int) -> Durable[int]:
        yield from sleep(0)
        return number * 2

    @activity
    async def ask(number: int) -> int:
        return await (await engine.start(other(number), id="other")).result(timeout=SOON)

    @workflow(name="asks")
    def asks() -> Durable[int]:
        return (yield from ask(21))

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(asks())).result(timeout=SOON) == 42


async def test_arguments_and_results_are_copies(store: Store) -> None:
    """The workflow does not see what an activity does to its argument, or later to its result."""
    kept: list[list[int]] = []

    @activity
    async def change(numbers: list[int]) -> list[int]:
        numbers.append(4)
        kept.append(numbers)
        return numbers

    @workflow(name="copies")
    def copies(numbers: list[int]) -> Durable[list[list[int]]]:
        result = yield from change(numbers)
        kept[0].append(5)
        return [numbers, result]

    mine = [1, 2, 3]
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(copies(mine))
        mine.append(9)
        assert await handle.result(timeout=SOON) == [[1, 2, 3], [1, 2, 3, 4]]
