"""Programs with a `SyncWorkflowEngine`: `python sync_scripts.py NAME STORE`; each prints its answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import anyio

from durable import Durable, EngineClosed, EngineConfig, EngineForked, Event, SyncWorkflowEngine, activity, workflow
from durable.backends.base import Opened
from durable.backends.sqlite import SqliteBackend

answer = Event[int]("sync.answer")
# The files in which an interrupt is raised at every line.
INTERRUPTED = ("engine/api/sync.py", "engine/api/loop_thread.py")


@workflow(name="sync.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@activity(name="sync.endless")
async def endless() -> None:
    """Interrupt the program, and never end."""
    os.kill(os.getpid(), signal.SIGINT)
    await anyio.sleep_forever()


@workflow(name="sync.work")
def work() -> Durable[None]:
    """Work without end."""
    yield from endless()


def say(value: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def fork(store: str, leave: Callable[[], None]) -> None:
    """Fork while the engine is open; the child tries every call, then leaves in its own way."""
    with SyncWorkflowEngine(store) as engine:
        handle = engine.start(wait_for_answer(), id="a")
        child = os.fork()
        if child == 0:
            said = set()
            calls: list[Callable[[], object]] = [
                handle.result, handle.status, handle.cancel, handle.progress, lambda: next(handle.watch()),
                lambda: engine.start(wait_for_answer()), lambda: engine.send_event(answer, 1, to="a"),
                lambda: engine.query_status("a"), engine.runs.list, engine.pauses.list, engine.dead_letters.list,
                engine.schedules.list, engine.recover, engine.shutdown,
            ]  # fmt: skip
            for call in calls:
                try:
                    call()
                except EngineForked as error:
                    said.add(error.opened_in == os.getppid())
            say(["child", list(said)])
            leave()
        else:
            _, status = os.waitpid(child, 0)
            engine.send_event(answer, 1, to="a")
            say(["parent", os.waitstatus_to_exitcode(status), handle.result()])


class Interrupting(SqliteBackend):
    """Interrupt the program while it opens its store, and open the store when the interrupt has arrived."""

    arrived = threading.Event()

    def open(self, incarnation: str) -> Opened:
        """Interrupt, wait, open."""
        os.kill(os.getpid(), signal.SIGINT)
        self.arrived.wait(10)
        return super().open(incarnation)


def interrupt_opening(store: str) -> None:
    """Ctrl-C while the store is being opened; then open the same file again."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        Interrupting.arrived.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        with SyncWorkflowEngine(Interrupting(store)):
            say("opened")
    except KeyboardInterrupt:
        say("interrupted")
    with SyncWorkflowEngine(store) as engine:
        say(engine.runs.count())


def interrupt_leaving(store: str) -> None:
    """Ctrl-C twice: the first ends the block, the second ends the wait for an activity that never ends."""
    try:
        with SyncWorkflowEngine(store, config=EngineConfig(drain=3600)) as engine:
            # Interrupted by the activity, and again as soon as the engine is being left.
            threading.Thread(target=_interrupt_when_draining, args=(engine,), daemon=True).start()
            engine.start(work(), id="a")
            threading.Event().wait()
    except KeyboardInterrupt:
        say("interrupted")
    with SyncWorkflowEngine(store, config=EngineConfig(drain=0), workflows=[wait_for_answer]) as engine:
        say(str(engine.query_status("a")))


def _interrupt_when_draining(engine: SyncWorkflowEngine) -> None:
    with contextlib.suppress(EngineClosed):
        while True:
            engine.query_status("a")
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_everywhere(store: str) -> None:
    """An interrupt at each line that `__enter__` runs in turn; after each of them the file can be opened."""
    count, is_over = 0, False
    while not is_over:
        count += 1
        left = count

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.endswith(INTERRUPTED):
                return None
            left -= event == "line"
            if left == 0 and event == "line":
                # Not again while it cleans up.
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        engine = SyncWorkflowEngine(store)
        sys.settrace(trace)
        try:
            engine.__enter__()
            sys.settrace(None)
            is_over = True
            engine.__exit__(None, None, None)
        except KeyboardInterrupt:
            pass
        with SyncWorkflowEngine(store) as again:
            again.query_status("a")
    say(count > 20)


if __name__ == "__main__":
    name, path = sys.argv[1:]
    # A program whose parent ignores interrupts, as one in the background does, would ignore them too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    match name:
        case "fork_and_exit":
            fork(path, lambda: sys.exit(7))
        case "fork_and_fall_through":
            fork(path, lambda: None)
        case "fork_and_fail":
            fork(path, lambda: sys.exit("no reason"))
        case _:
            globals()[name](path)
