"""The bridge from the coordinator's thread into the host's loop."""

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
    """Post some calls in order from a thread. Returns when the last one was made."""
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
    """Calls posted by a thread run in the loop, in the same order."""
    bridge = LoopBridge()
    heard: list[tuple[int, int]] = []
    calls = [lambda _, number=number: heard.append((number, threading.get_ident())) for number in range(100)]
    await post_from_thread(bridge, *calls)
    bridge.close()
    assert heard == [(number, threading.get_ident()) for number in range(100)]


def test_call_that_fails_keeps_no_other_waiting() -> None:
    """An error goes to the loop's handler, and the next call is made anyway."""
    reported: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(repr(context["exception"])))
        bridge = LoopBridge()
        await post_from_thread(bridge, {}.__getitem__)
        bridge.close()

    asyncio.run(main())
    assert reported == ["KeyError(None)"]


def test_post_into_a_closed_loop_is_refused() -> None:
    """A post into a closed loop is dropped, and the poster is told."""

    async def main() -> LoopBridge:
        return LoopBridge()

    bridge = asyncio.run(main())
    assert not bridge.post(print, None)


def test_loop_without_file_watching_uses_its_own_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loop that cannot watch files, the bridge uses the loop's own thread-safe call."""

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
def test_files_are_closed(tmp_path: Path) -> None:
    """Engines that were open, failed to open, or were abandoned by their loop leave no file open."""

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
