"""The file and line at which a workflow waits, in its own code and not in durable's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import sleep
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import a_session, activity_ok, answer, approval, charge, run, value_of

TEXT = Path(__file__).read_text().splitlines()


def line(session: WorkflowSessionRunner, position: str) -> str:
    """The text of the source line of a wait."""
    source = session.source(position)
    assert source is not None
    file, _, number = source.rpartition(":")
    assert Path(file) == Path(__file__)
    return TEXT[int(number) - 1].strip()


def helper() -> Durable[int]:
    """A helper that is inlined, or a branch."""
    return (yield from charge(1))  # the helper waits


async def async_helper() -> int:
    """The same as a coroutine."""
    return await charge(1)  # the async helper waits


@workflow(name="runner.source.generator")
def waiting() -> Durable[Any]:
    """Waits itself, in a helper, and in branches."""
    yield from sleep(5)  # the body waits
    yield from helper()
    yield from gather(  # the group
        charge(1),
        helper(),
        race(approval.wait().within(5).or_default(None), async_helper()),
    )


@workflow(name="runner.source.coroutine")
async def async_waiting() -> Any:
    """The same as a coroutine."""
    await sleep(5)  # the async body waits
    await async_helper()
    await gather(  # the group
        charge(1),
        async_helper(),
        race(approval.wait().within(5).or_default(None), helper()),
    )


GENERATOR = {
    "0": "yield from sleep(5)  # the body waits",
    "1": "return (yield from charge(1))  # the helper waits",
    "2.0.0": "yield from gather(  # the group",
    "2.1.0": "return (yield from charge(1))  # the helper waits",
    "2.2.0.0.0.0.0": "yield from gather(  # the group",
    "2.2.0.0.0.1.0": "yield from gather(  # the group",
    "2.2.0.1.0": "return await charge(1)  # the async helper waits",
}
COROUTINE = {
    "0": "await sleep(5)  # the async body waits",
    "1": "return await charge(1)  # the async helper waits",
    "2.0.0": "await gather(  # the group",
    "2.1.0": "return await charge(1)  # the async helper waits",
    "2.2.0.0.0.0.0": "await gather(  # the group",
    "2.2.0.0.0.1.0": "await gather(  # the group",
    "2.2.0.1.0": "return (yield from charge(1))  # the helper waits",
}


@pytest.mark.parametrize(("definition", "lines"), [(waiting, GENERATOR), (async_waiting, COROUTINE)])
def test_source_is_the_line_of_the_users_code(definition: WorkflowDef[[], Any], lines: dict[str, str]) -> None:
    """Every open wait has a line: in the body, in the helper that waits, or of the group whose branch it is."""
    session = a_session(definition)
    session.start()
    shown = {position: line(session, position) for position in session.waits}
    first = session.waits["0"]
    session.feed(answer(first, 5))
    shown |= {position: line(session, position) for position in session.waits}
    session.feed(activity_ok(6, "1", "charge", 1))
    shown |= {position: line(session, position) for position in session.waits}
    assert shown == lines


def test_source_of_a_position_that_is_not_open_is_none() -> None:
    """Only an open wait has a line."""
    session = a_session(waiting)
    assert session.source("0") is None
    session.start()
    assert session.source("1") is None


def test_source_of_code_without_a_frame_is_none() -> None:
    """A branch that is not driven by Python code has the line of its owner."""

    class Steps:
        """A helper with the methods of a generator, and no frame."""

        def __init__(self) -> None:
            self.inner = helper()
            self.send: Callable[[Any], Any] = self.inner.send
            self.throw = self.inner.throw
            self.close = self.inner.close

    @workflow(name="w")
    def body() -> Durable[Any]:
        steps: Any = Steps()
        return (yield from gather(steps))  # its owner

    session = a_session(body)
    session.start()
    assert line(session, "0.0.0") == "return (yield from gather(steps))  # its owner"
    assert value_of(run(body, activity_ok(1, "0.0.0", "charge", 8))) == (8,)


def test_source_of_a_root_without_a_frame_is_none() -> None:
    """If no code around a wait has a frame, there is no line."""

    class Bare:
        """A body with the methods of a generator only."""

        def __init__(self) -> None:
            self.inner = helper()

        def send(self, value: Any) -> Any:
            return self.inner.send(value)

        def throw(self, error: BaseException) -> Any:
            return self.inner.throw(error)

        def close(self) -> None:
            self.inner.close()

    definition: WorkflowDef[[], Any] = WorkflowDef(Bare, "bare", 1)
    session = a_session(definition)
    session.start()
    assert session.source("0") is None
    session.close()
