"""The way from the coordinator's thread into the host's loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import WorkflowEngine
from durable.engine.host.bridge import LoopBridge
from durable.errors import StoreUnusable

linux = pytest.mark.skipif(sys.platform != "linux", reason="counts the files of this process in /proc")


def open_files() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


async def post_from_thread(bridge: LoopBridge, *calls: Any) -> None:
    """Post some calls, one after the other, from a thread; come back when the last one was made."""
    made = anyio.Event()

    def work() -> None:
        for call in calls:
            bridge.post(call, None)
        bridge.post(lambda _: made.set(), None)

    threading.Thread(target=work).start()
    with anyio.fail_after(5):
        await made.wait()


@pytest.mark.anyio
async def test_posts_arrive_in_order() -> None:
    """What a thread posts is called in the loop, in the same order."""
    bridge = LoopBridge()
    heard: list[tuple[int, int]] = []
    calls = [lambda _, number=number: heard.append((number, threading.get_ident())) for number in range(100)]
    await post_from_thread(bridge, *calls)
    bridge.close()
    assert heard == [(number, threading.get_ident()) for number in range(100)]


def test_call_that_fails_keeps_no_other_waiting() -> None:
    """An error goes to the loop, and the next call is made all the same."""
    told: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(repr(context["exception"])))
        bridge = LoopBridge()
        await post_from_thread(bridge, {}.__getitem__)
        bridge.close()

    asyncio.run(main())
    assert told == ["KeyError(None)"]


def test_loop_that_is_gone() -> None:
    """Nobody hears what is posted into a loop that is closed, and whoever posts is told."""

    async def main() -> LoopBridge:
        return LoopBridge()

    bridge = asyncio.run(main())
    assert not bridge.post(print, None)


def test_loop_that_watches_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its own call, and that is used."""

    def add_reader(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)

    async def main() -> None:
        bridge = LoopBridge()
        await post_from_thread(bridge)
        bridge.close()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


@linux
def test_files_are_given_back(tmp_path: Path) -> None:
    """Engines that were open, could not be opened, or were left behind by their loop keep no file open."""

    async def main() -> None:
        async with WorkflowEngine(tmp_path / "a.db"):
            pass
        with pytest.raises(StoreUnusable):
            async with WorkflowEngine(tmp_path / "none" / "a.db"):
                pass
        LoopBridge()

    asyncio.run(main())
    before = open_files()
    for _ in range(3):
        asyncio.run(main())
    assert open_files() == before
