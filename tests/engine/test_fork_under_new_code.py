"""A fork runs today's code after the copied part."""

from __future__ import annotations

import pytest

from durable import Durable, patched, workflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import work
from tests.engine.mending import check_restart, fork
from tests.engine.test_fork import finish_all


@workflow(name="fork.changed")
def old() -> Durable[list[int]]:
    """Does two steps."""
    return [(yield from work(1)), (yield from work(2))]


@pytest.mark.parametrize(("position", "ran"), [("0", [10, 1, 20, 2]), ("1", [20, 2])])
def test_steps_after_the_copied_part_take_the_new_code(position: str, ran: list[int]) -> None:
    """`patched` says no in the copied part and yes after it, and both answers hold when the fork is rebuilt."""

    @workflow(name="fork.changed")
    def new() -> Durable[list[int]]:
        """Does the same two steps, each with a new one before it."""
        results = []
        if patched("before"):
            results.append((yield from work(10)))
        results.append((yield from work(1)))
        if patched("between"):
            results.append((yield from work(20)))
        return [*results, (yield from work(2))]

    engine = DirectEngine(old)
    engine.start(old())
    finish_all(engine)
    engine.restart(new)
    fork(engine, position, new_id="f")
    check_restart(engine, new)
    begun = []
    while engine.activities:
        begun.append(engine.activities[0].args[0])
        engine.finish(engine.activities[0], begun[-1])
        check_restart(engine, new)
    assert begun == ran
    assert engine.result("f")[-len(ran) :] == ran
