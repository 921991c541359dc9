"""Time, randomness and identity in a body: the same on every replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from durable.errors import OperationMisused
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import info, now, random, uuid
from durable.runner.ops import sleep
from tests.runner.builders import (
    NEW_YEAR,
    a_session,
    activity_ok,
    activity_retry,
    charge,
    instant,
    run,
    seconds,
    timer_fired,
    value_of,
)


@workflow(name="runner.determinism.generator")
def drawing() -> Durable[Any]:
    """Draws before, between and after operations."""
    first = uuid(), random("dice").random(), now()
    yield from charge(1)
    return first, uuid(), random("dice").random(), now()


@workflow(name="runner.determinism.coroutine")
async def async_drawing() -> Any:
    """The same as a coroutine."""
    first = uuid(), random("dice").random(), now()
    await charge(1)
    return first, uuid(), random("dice").random(), now()


ENTRY = activity_ok(3, "0", "charge", 1)


@pytest.mark.parametrize("definition", [drawing, async_drawing], ids=["generator", "async def"])
def test_draws_are_the_same_on_every_replay(definition: WorkflowDef[[], Any]) -> None:
    """A workflow draws the same values on every replay, and no value twice."""
    first = value_of(run(definition, ENTRY))
    assert first == value_of(run(definition, ENTRY)) == value_of(run(drawing, ENTRY))
    assert first[0][2] == NEW_YEAR
    assert first[3] == instant(3)
    assert first[0][0] != first[1]
    assert first[0][1] != first[2]
    assert (first[1].version, first[1].variant) == (4, "specified in RFC 4122")


def test_draws_are_pinned() -> None:
    """Stored workflows rely on these values: another derivation would change what they do."""
    first, second, dice, _ = value_of(run(drawing, ENTRY))
    assert (str(first[0]), str(second)) == PINNED_UUIDS
    assert (first[1], dice) == PINNED_DICE


PINNED_UUIDS = ("cc381e1e-98ae-47e8-8292-aacd6110d478", "cd8ff1f4-3477-47a6-be7f-3788c6465bff")
PINNED_DICE = (0.46072279038876973, 0.455003383282088)


@pytest.mark.parametrize("change", [{"id": "w-2"}, {"round": 1}])
def test_draws_differ_between_workflows_and_rounds(change: dict[str, Any]) -> None:
    """Another id, or another round of the same workflow, draws other values."""
    session, changed = a_session(drawing), a_session(drawing, **change)
    first, second = value_of(session.replay([ENTRY])), value_of(changed.replay([ENTRY]))
    assert first[1] != second[1]
    assert first[2] != second[2]


def test_draws_of_one_name_do_not_shift_another() -> None:
    """Each name and each kind of draw has its own counter."""

    def draws(*more: str) -> list[Any]:
        @workflow(name="w")
        def body() -> Durable[list[Any]]:
            first = uuid("a")
            for name in more:
                uuid(name)
                random(name)
            yield from sleep(0)
            return [first, uuid("a"), random("a").random()]

        drawn: list[Any] = value_of(run(body))
        return drawn

    assert draws() == draws("b", "c", "") == draws("a ")
    assert draws() != draws("a")
    assert len({draws()[0], draws()[1], *draws("a")[:2]}) == 3


def test_random_is_a_generator_of_its_own() -> None:
    """`random` gives a seeded generator: using it more or less changes no other draw."""

    def drawn(count: int) -> Any:
        @workflow(name="w")
        def body() -> Durable[Any]:
            dice = random()
            for _ in range(count):
                dice.random()
            yield from sleep(0)
            return random().random()

        return value_of(run(body))

    assert drawn(0) == drawn(10)


def test_now_is_the_time_of_the_last_entry() -> None:
    """`now` moves with each entry, in all branches, but not with failed attempts."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        def branch() -> Durable[Any]:
            yield from charge(1)
            return now()

        start = now()
        times = yield from gather(branch(), branch())
        yield from sleep(0)
        return start, *times, now()

    session = a_session(body)
    session.start()
    session.feed(activity_retry(2, "0.0.0", "charge", seconds(3)))
    session.feed(activity_ok(5, "0.1.0", "charge", 1))
    result = session.feed(activity_ok(8, "0.0.0", "charge", 1))
    assert value_of(result) == (NEW_YEAR, instant(8), instant(5), instant(8))


def test_info_says_who_runs() -> None:
    """`info` gives id, name, version, round and creation time."""

    @workflow(name="w", version=3)
    def body() -> Durable[Any]:
        yield from sleep(1)
        return info()

    session = a_session(body, id="order-1", round=2)
    identity = value_of(session.replay([timer_fired(1, "0")]))
    assert attrs.asdict(identity) == {
        "id": "order-1", "name": "w", "version": 3, "round": 2, "created_at": NEW_YEAR, "tags": (),
    }  # fmt: skip


@pytest.mark.parametrize(("verb", "call"), [("now", now), ("uuid", uuid), ("random", random), ("info", info)])
def test_draws_outside_a_workflow_are_refused(verb: str, call: Callable[[], Any]) -> None:
    """Outside of a body there is no id to derive from, not even after a session has run in this thread."""
    run(drawing, ENTRY)
    with pytest.raises(OperationMisused, match=rf"{verb}\(\) works only inside a workflow body"):
        call()
