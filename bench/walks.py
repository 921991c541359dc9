"""How far a reader walks to follow the engine: `python -m bench.walks`.

Three walks are traced call by call, over all threads: an event that ends a child, which ends its parent; a start with
one activity up to its result; and the recovery after an unclean stop. It counts calls of functions of `durable`, the
modules they are in, how often a call is in another module than the one before it, how often the walk passes between
engine and runner, and how often it changes threads.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from durable import Durable, Event, WorkflowEngine, activity, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.coordinator.coordinator import WorkflowStateCoordinator
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import StartWorkflow
from durable.model.clock import SystemClock
from durable.model.codec import Codec
from durable.model.registry import Registry

go = Event[str]("walks.go")


@activity(name="walks.greet")
async def greet(name: str) -> str:
    """The one activity of a walk."""
    return f"hello {name}"


@workflow(name="walks.child")
def child() -> Durable[str]:
    """Ends with the event."""
    return (yield from go.wait())


@workflow(name="walks.parent")
def parent(child_id: str) -> Durable[str]:
    """Ends with its child."""
    return (yield from child().with_id(child_id))


@workflow(name="walks.single")
def single() -> Durable[str]:
    """One activity."""
    return (yield from greet("ann"))


class Step(NamedTuple):
    """One call."""

    module: str
    function: str
    thread: int


class Walk:
    """The calls of one walk, in the order in which they were made."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def note(self, frame: FrameType, occasion: str, _argument: Any) -> None:
        """The profile function: the interpreter calls it at every call and return."""
        module = frame.f_globals.get("__name__", "")
        if occasion == "call" and module.startswith("durable."):
            self.steps.append(Step(module, frame.f_code.co_qualname, threading.get_ident()))

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Note the calls of this thread and of threads that start meanwhile."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def row(self, name: str) -> str:
        """The figures of this walk."""
        pairs = list(pairwise(self.steps))
        modules = {step.module for step in self.steps}
        changes = sum(before.module != after.module for before, after in pairs)
        rooms = [(_room(before), _room(after)) for before, after in pairs]
        crossings = sum(set(pair) == {"engine", "runner"} for pair in rooms)
        hops = sum(before.thread != after.thread for before, after in pairs)
        figures = (len(self.steps), len(modules), changes, crossings, hops)
        return f"| {name} | " + " | ".join(map(str, figures)) + " |"


def _room(step: Step) -> str:
    return step.module.split(".")[1]


async def _traced(walk: Walk, act: Callable[[], Awaitable[Any]]) -> None:
    """Trace all that follows from a call. The coordinator's thread is already running, so it is traced from inside."""
    process = WorkflowStateCoordinator.process

    def traced_process(self: WorkflowStateCoordinator, items: list[Any]) -> None:
        sys.setprofile(walk.note)
        try:
            process(self, items)
        finally:
            sys.setprofile(None)

    WorkflowStateCoordinator.process = traced_process  # type: ignore[method-assign]
    try:
        with walk.traced():
            await act()
    finally:
        WorkflowStateCoordinator.process = process  # type: ignore[method-assign]


async def _event_ends_child(walk: Walk) -> None:
    """An event that a child waits for: it ends the child, whose end completes the parent."""
    async with WorkflowEngine(MemoryBackend()) as engine:
        # The first round makes coders for the types, so only the second one is counted.
        for round in (Walk(), walk):
            handle = await engine.start(parent(f"child-{id(round)}"))
            await _traced(round, partial(engine.send_event, go, "done", to=f"child-{id(round)}"))
            assert await handle.result() == "done"


async def _start_to_result(walk: Walk) -> None:
    """A start, one activity on the loop, and the result in the hands of the caller."""

    async def act() -> None:
        handle = await engine.start(single())
        assert await handle.result() == "hello ann"

    async with WorkflowEngine(MemoryBackend()) as engine:
        for round in (Walk(), walk):
            await _traced(round, act)


def _recovery(walk: Walk) -> None:
    """The coordinator alone, so that the walk is the same every time."""
    store, codec = MemoryStore(), Codec()

    def open() -> WorkflowStateCoordinator:
        return WorkflowStateCoordinator(
            MemoryBackend(store), Registry([single]), codec=codec, config=EngineConfig(), clock=SystemClock(),
            release=lambda release: None,
        )  # fmt: skip

    first = open()
    first.open("first")
    text = single.coder(codec).pack_arguments((), {})
    start = StartWorkflow(id="single", name=single.name, version=single.version, definition=single, input=text)
    first.process([Envelope(start, lambda: None)])
    second = open()
    with walk.traced():
        second.open("second")
        second.work_off()


def main() -> None:
    """Walk, print a table, and write every step to a file: the one that is named, or one in the temporary folder."""
    print("| | calls | modules | changes of module | engine ↔ runner | thread hops |\n|---|---|---|---|---|---|")
    walks = {
        "an event ends a child, which ends its parent": lambda walk: asyncio.run(_event_ends_child(walk)),
        "start → one activity → `result()`": lambda walk: asyncio.run(_start_to_result(walk)),
        "recovery after an unclean stop": _recovery,
    }
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "durable-walks.txt"
    with target.open("w") as file:
        for name, take in walks.items():
            walk = Walk()
            take(walk)
            print(walk.row(name))
            file.write(f"{name}\n")
            file.writelines(f"  {step.thread % 1000} {step.module}.{step.function}\n" for step in walk.steps)
    print(f"every step: {target}")


if __name__ == "__main__":
    main()
