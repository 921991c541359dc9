"""Code and data that misbehave: the error that they cause, and that nothing else is affected."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from durable import (
    ChildDepthExceeded,
    Codec,
    CodecError,
    DuplicateWorkflow,
    Durable,
    EngineClosed,
    EngineConfig,
    OperationMisused,
    ParkReason,
    PayloadTooLarge,
    Retry,
    StoreTooNew,
    StoreUnusable,
    WorkflowAlreadyExists,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowNotFound,
    call,
    sleep,
    stored_traceback,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.bad_inputs.flows import UNSTORABLE, Unequal, echo, giver, go, runs, waiter
from tests.bad_inputs.mutes import CannotBeMade
from tests.scenarios.kit import SOON, contents, move

pytestmark = pytest.mark.anyio
NEVER = Retry.never()


async def _cause(engine: WorkflowEngine, call: Any, id: str = "a") -> BaseException:
    """The error with which a workflow failed."""
    with pytest.raises(WorkflowFailed) as caught:
        await (await engine.start(call, id=id)).result(timeout=SOON)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


async def test_f11_unknown_code_parks(tmp_path: Path) -> None:
    """A stored workflow whose code is gone is parked with its name and the fix; a call registers its code."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file, workflows=[]) as engine:
        await engine.start(waiter(), id="a")
    async with WorkflowEngine(file, workflows=[echo]) as engine:
        await engine.send_event(go, 1, to="a")
        description = await engine.runs.describe("a")
        assert description.park_reason is ParkReason.UNKNOWN_CODE
        assert "'bad.waiter'" in (description.summary.parked or "")
        assert "import the module" in (description.summary.parked or "")


async def test_f12_one_name_has_one_function(tmp_path: Path) -> None:
    """Another function under a registered name and version is refused, naming both, and nothing is written."""

    @workflow(name="bad.waiter")
    def impostor() -> Durable[None]:
        yield from sleep(0)

    with pytest.raises(DuplicateWorkflow, match=r"'bad.waiter' version 1 .*flows.waiter.*impostor.*name= or version="):
        WorkflowEngine("memory://", workflows=[waiter, impostor])
    file = tmp_path / "store.db"
    async with WorkflowEngine(file, workflows=[waiter]) as engine:
        before = contents(file)
        with pytest.raises(DuplicateWorkflow):
            await engine.start(impostor())
        assert contents(file) == before


async def test_f17_body_that_ignores_its_closing_is_left_behind(tmp_path: Path) -> None:
    """A body that swallows the end of its generator is still evicted, and rebuilt when it is needed."""

    @workflow(name="bad.clinging")
    def clinging() -> Durable[int]:
        while True:
            try:
                return (yield from go.wait())
            except BaseException:
                yield from sleep(0)

    config = EngineConfig(max_loaded_workflows=1)
    async with WorkflowEngine(tmp_path / "store.db", workflows=[clinging], config=config) as engine:
        for id in "abc":
            await engine.start(clinging(), id=id)
        for number, id in enumerate("abc"):
            await engine.send_event(go, number, to=id)
            assert await engine.handle(id).result(timeout=SOON) == number


async def test_f18_body_must_not_call_the_engine() -> None:
    """A body that starts a workflow through the engine fails with what to write instead."""

    @workflow(name="bad.reentering")
    def reentering() -> Durable[None]:
        engine.start(waiter(), id="b")  # type: ignore[unused-coroutine]
        yield from sleep(0)

    async with WorkflowEngine("memory://") as engine:
        cause = await _cause(engine, reentering())
        assert isinstance(cause, OperationMisused)
        assert "start() was called inside a workflow body" in str(cause)
        assert "yield a workflow call for a child" in str(cause)
        assert await engine.query_status("b") is None


async def test_f19_body_that_is_not_deterministic_is_parked(tmp_path: Path) -> None:
    """A body that depends on something unrecorded diverges on replay: parked with a diff, nothing appended."""
    coins = iter([True, False, False])

    @workflow(name="bad.gambling")
    def gambling() -> Durable[int]:
        if next(coins):
            yield from call(int, "1", name="heads")
        else:
            yield from call(int, "2", name="tails")
        return (yield from go.wait())

    file = tmp_path / "store.db"
    async with WorkflowEngine(file, workflows=[gambling]) as engine:
        await engine.start(gambling(), id="a")
        while len(await engine.runs.history("a")) < 1:
            pass
    async with WorkflowEngine(file, workflows=[gambling]) as engine:
        await engine.send_event(go, 1, to="a")
        description = await engine.runs.describe("a")
        assert description.park_reason is ParkReason.DIVERGED
        assert "recorded: activity heads" in (description.summary.parked or "")
        assert "activity tails" in (description.summary.parked or "")
        assert description.history_length == 1


async def test_f20_body_that_does_not_come_back_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A body that never yields is named with its id while it is stuck; the engine continues when it returns."""
    free = threading.Event()

    @workflow(name="bad.stuck")
    def stuck() -> Durable[None]:
        free.wait(SOON)
        yield from sleep(0)

    class Freeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            free.set()

    logger = logging.getLogger("durable")
    logger.addHandler(handler := Freeing())
    try:
        async with WorkflowEngine("memory://", config=EngineConfig(stuck_body_after=0.05)) as engine:
            await (await engine.start(stuck(), id="a")).result(timeout=SOON)
            await engine.start(waiter(), id="b")
    finally:
        logger.removeHandler(handler)
    assert any("workflow a" in record.getMessage() for record in caplog.records)


async def test_f21_child_of_itself_comes_to_a_limit() -> None:
    """Children that keep starting children fail at the limit; the error names the limit and the alternative."""

    @workflow(name="bad.endless")
    def endless(depth: int) -> Durable[int]:
        return (yield from endless(depth + 1))

    async with WorkflowEngine("memory://", config=EngineConfig(max_child_depth=3)) as engine:
        await _cause(engine, endless(0))
        cause = await _cause(engine, endless(3), "a/0/0/0")
        assert isinstance(cause, ChildDepthExceeded)
        assert str(cause).startswith("workflow 'a/0/0/0' is 3 children deep (max_child_depth)")
        assert "continue_as" in str(cause)
        assert await engine.runs.count() == 4


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, StopIteration, KeyboardInterrupt, BaseException])
async def test_f22_what_is_no_exception_fails_the_activity_alone(kind: type[BaseException]) -> None:
    """An activity in a thread that raises something other than an `Exception` fails, once, and the service works on."""
    tried: list[int] = []

    def rude() -> None:
        tried.append(1)
        raise kind("rude")

    @workflow(name="bad.rude")
    def body() -> Durable[None]:
        yield from call(rude, name="rude", retry=NEVER)

    async with WorkflowEngine("memory://") as engine:
        cause = await _cause(engine, body())
        assert kind.__name__ in f"{type(cause).__name__} {getattr(cause, 'error_type', '')} {cause!r}"
        assert tried == [1]
        await engine.start(waiter(), id="b")


async def test_f23_error_that_cannot_be_called_again_arrives(tmp_path: Path) -> None:
    """An error whose class cannot be called with its arguments arrives as itself, with its traceback."""

    def fail() -> None:
        raise CannotBeMade(1, 2)

    @workflow(name="bad.unmakeable")
    def body() -> Durable[list[str]]:
        try:
            yield from call(fail, name="fail", retry=NEVER)
        except CannotBeMade as error:
            return [type(error).__name__, str(error), stored_traceback(error)]
        return []

    async with WorkflowEngine(tmp_path / "store.db") as engine:
        name, message, trace = await (await engine.start(body())).result(timeout=SOON)
        assert name == "CannotBeMade"
        assert message == "1 and 2"
        assert "in fail" in trace


async def test_f24_endless_message_is_cut() -> None:
    """A message of 50 MB is stored with its middle cut out, which is marked."""

    def fail() -> None:
        raise LookupError("x" * 50_000_000)

    @workflow(name="bad.verbose")
    def body() -> Durable[None]:
        yield from call(fail, name="fail", retry=NEVER)

    async with WorkflowEngine("memory://") as engine:
        cause = await _cause(engine, body())
        assert "characters cut" in str(cause)
        assert len(str(cause)) < 10_000


@pytest.mark.parametrize("kind", UNSTORABLE)
async def test_f25_result_that_cannot_be_stored_is_permanent(kind: str) -> None:
    """Such a result fails the activity with its name, without another attempt, which could not help."""
    runs.clear()
    async with WorkflowEngine("memory://") as engine:
        cause = await _cause(engine, giver(kind))
        assert isinstance(cause, CodecError)
        assert "activity bad.give: result" in str(cause)
        assert runs == [kind]


async def test_f33_large_result_is_refused() -> None:
    """A result over the limit fails the activity with the size, the limit and the fix, and is not stored."""

    @workflow(name="bad.large")
    def body() -> Durable[str]:
        return (yield from call(str.upper, "x" * 600, name="large"))

    async with WorkflowEngine("memory://", config=EngineConfig(max_payload_bytes=500)) as engine:
        cause = await _cause(engine, body())
        assert isinstance(cause, PayloadTooLarge)
        assert (cause.size, cause.limit) == (602, 500)
        assert "activity large: result" in str(cause)
        assert all(len(entry.outcome) < 5_000 for entry in await engine.runs.history("a"))


def test_f36_value_that_cannot_be_compared_is_contained() -> None:
    """A class whose comparison raises is judged by its fields, so it is stored like any other."""
    coder = Codec().coder(Unequal, "here")
    text, back = coder.pack(Unequal(5))
    assert (text, back.number) == ('{"number":5}', 5)


async def test_f37_stored_pickle_is_no_value(tmp_path: Path) -> None:
    """Stored bytes that a pickle would run park their workflow as unreadable, and the others continue."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file) as engine:
        for id in "ab":
            await engine.start(waiter(), id=id)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE workflow SET input = ? WHERE id = 'a'", ("cos\nsystem\n(S'false'\ntR.",))
        connection.commit()
    async with WorkflowEngine(file) as engine:
        for id in "ab":
            await engine.send_event(go, 1, to=id)
        assert (await engine.runs.describe("a")).park_reason is ParkReason.UNREADABLE
        assert await engine.handle("b").result(timeout=SOON) == 1


async def test_f54_timeout_of_zero_is_immediate() -> None:
    """`result(timeout=0)` raises `TimeoutError` immediately, and the workflow continues."""
    async with WorkflowEngine("memory://") as engine:
        handle = await engine.start(waiter(), id="a")
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0)
        await engine.send_event(go, 3, to="a")
        assert await handle.result(timeout=SOON) == 3


async def test_f55_purged_workflow_is_gone() -> None:
    """The result of a purged workflow is a typed refusal, also through an old handle."""
    clock = ManualClock()
    async with WorkflowEngine("memory://", clock=clock) as engine:
        handle = await engine.start(echo(1), id="a")
        await handle.result(timeout=SOON)
        await move(engine, clock, 10)
        assert await engine.runs.purge(5) == 1
        with pytest.raises(WorkflowNotFound, match="'a'"):
            await handle.result(timeout=SOON)


async def test_f57_one_child_id_is_one_child() -> None:
    """Two calls with one explicit child id are an error, not a shared result; equal activity names are two steps."""

    @workflow(name="bad.twins")
    def twins() -> Durable[Any]:
        first = yield from call(int, "1", name="same")
        second = yield from call(int, "2", name="same")
        yield from echo(1).with_id("child")
        try:
            yield from echo(2).with_id("child")
        except WorkflowAlreadyExists as error:
            return [first, second, error.workflow_id]

    async with WorkflowEngine("memory://") as engine:
        assert await (await engine.start(twins())).result(timeout=SOON) == [1, 2, "child"]


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA application_id = {0x44757262}; PRAGMA user_version = 99")


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


UNUSABLE: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "a directory": (Path.mkdir, StoreUnusable, "it is a directory; name a file in it"),
    "no database": (lambda path: path.write_text("hello, this is text"), StoreUnusable, "not an SQLite database"),
    "read-only": (partial(Path.touch, mode=0o444), StoreUnusable, "no permission to write"),
    "newer": (_newer, StoreTooNew, "upgrade durable-engine"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
async def test_f58_unusable_file_is_left_alone(tmp_path: Path, kind: str) -> None:
    """A path that cannot be a store is refused with its name and the reason, and nothing changes."""
    prepare, error, says = UNUSABLE[kind]
    path = tmp_path / "store.db"
    prepare(path)
    before = _files(tmp_path)
    with pytest.raises(error, match=says) as caught:
        async with WorkflowEngine(path):
            pass
    assert str(path) in str(caught.value)
    assert _files(tmp_path) == before


async def test_f58_missing_folder_is_not_made(tmp_path: Path) -> None:
    """A missing folder is named with what to do, and is not created."""
    with pytest.raises(StoreUnusable, match=r"missing' does not exist; create it first"):
        async with WorkflowEngine(tmp_path / "missing" / "store.db"):
            pass
    assert not (tmp_path / "missing").exists()


async def test_f60_lifecycle_is_defined() -> None:
    """An engine is entered once at a time, may be shut down twice, and says so when it is used afterwards."""
    engine = WorkflowEngine("memory://")
    with pytest.raises(EngineClosed, match="async with"):
        await engine.query_status("a")
    async with engine:
        with pytest.raises(OperationMisused, match="already open"):
            await engine.__aenter__()
        await engine.shutdown()
        await engine.shutdown()
        with pytest.raises(EngineClosed, match="shut down"):
            await engine.start(waiter())


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
async def test_f60_call_from_another_loop_is_refused(loop: str) -> None:
    """A call from the loop of another thread is refused before anything is written, with the two ways that work."""
    async with WorkflowEngine("memory://") as engine:
        for use in (partial(engine.start, waiter(), id="a"), engine.shutdown, engine.handle("a").result):
            with pytest.raises(OperationMisused, match=r"another event loop.*from_thread.*SyncWorkflowEngine"):
                await anyio.to_thread.run_sync(partial(anyio.run, use, backend=loop))
        assert await engine.runs.count() == 0
        ask = partial(anyio.from_thread.run, engine.query_status, "a")
        assert await anyio.to_thread.run_sync(ask) is None
