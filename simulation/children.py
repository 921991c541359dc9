"""Rows of children, awaited and spawned, and of published progress."""

from __future__ import annotations

import json
from typing import Any

from durable.errors import ChildWorkflowCancelled, ChildWorkflowFailed
from durable.model.records import OnParentClose
from durable.runner.children import spawn
from durable.runner.definitions import Durable
from durable.runner.determinism import info
from durable.runner.ops import Op, sleep
from simulation.holds import last_owes
from simulation.rows import Maker, Row, add, errors, few_rounds, fits, is_late, limited, simulated, tag
from simulation.steps import Step, write
from simulation.told import tell

# The rows whose steps start a child.
STARTS = ("child", "spawn")


def _make_child(maker: Maker) -> Step:
    was_known = maker.is_known
    maker.is_known = was_known and maker.dice.chance(0.5)
    is_known = maker.is_known
    was_caught, maker.is_caught = maker.is_caught, True
    inner = [maker.step("sequence", *maker.inside(1, 3)) for _ in range(few_rounds(maker))]
    rounds = maker.step("rounds", *last_owes(inner), publishes=maker.dice.chance(0.3))
    maker.is_known, maker.is_caught = was_known, was_caught
    return maker.step("child", rounds, is_known=is_known, **maker.limit(0.15))


def child_id(id: str, step: Step) -> str:
    """The id of a child that clients know, and so may send to and cancel."""
    return f"{id}.c{step.n}"


def _run_child(step: Step) -> Durable[Any]:
    call = simulated(write(step.steps[0]), [])
    if step["is_known"]:
        call = call.with_id(child_id(info().id, step))
    return (yield from outcome(step, call))


def outcome(step: Step, op: Op[Any]) -> Durable[Any]:
    """The end of a child, as a value."""
    try:
        return ["child", (yield from limited(step, op))]
    except ChildWorkflowFailed as error:
        return ["child failed", tag(error.error_type, error.message)]
    except ChildWorkflowCancelled:
        return ["child cancelled", step.n]


def _fits_child(step: Step, value: Any) -> bool:
    how, result = value
    if how == "child":
        return is_late(step, result) or fits(step.steps[0], result)
    if how == "child failed":
        return result in errors(step.steps[0])
    # A child that its parent waits for is cancelled by a client, which needs to know its id, or by the parent itself.
    return bool(value == ["child cancelled", step.n] and (step["is_known"] or step.settings.get("stops")))


def _make_spawn(maker: Maker) -> Step:
    """A child like those of `child`, with settings for its parent.

    They say whether it outlives the parent, how often its result is awaited, after which pause, and whether it is
    cancelled before that.
    """
    child = _make_child(maker)
    dice = maker.dice
    settings = {
        "closes": dice.weighted({OnParentClose.KEEP.value: 1, OnParentClose.CANCEL.value: 1}),
        "asks": dice.weighted({0: 3, 1: 4, 2: 2}),
        "gap": dice.weighted({0: 2, 1_000: 2, 9_000: 1}),
        "stops": dice.chance(0.15),
    }
    return Step("spawn", child.n, child.settings | settings, child.steps)


def _run_spawn(step: Step) -> Durable[Any]:
    id = child_id(info().id, step) if step["is_known"] else None
    closes = OnParentClose(step["closes"])
    handle = yield from spawn(simulated(write(step.steps[0]), []), id, closes)
    yield from sleep(step["gap"] / 1000)
    if step["stops"]:
        yield from handle.cancel()
    outcomes = []
    for _ in range(step["asks"]):
        outcomes.append((yield from outcome(step, handle.result())))
    return ["spawned", step.n, *outcomes]


def _fits_spawn(step: Step, value: Any) -> bool:
    outcomes = value[2:]
    late = ["child", ["late", step.n]]
    # A child ends once: every wait for its result gets the same.
    ends = {json.dumps(end) for end in outcomes if end != late}
    is_whole = value[:2] == ["spawned", step.n] and len(outcomes) == step["asks"] and len(ends) <= 1
    return is_whole and all(_fits_child(step, end) for end in outcomes)


def _run_publish(step: Step) -> Durable[Any]:
    tell(step.n)
    return ["published", step.n]
    yield


add(
    {
        "child": Row(weight=2, make=_make_child, run=_run_child, fits=_fits_child, is_leaf=False),
        "spawn": Row(weight=2, make=_make_spawn, run=_run_spawn, fits=_fits_spawn, is_leaf=False),
        "publish": Row(
            weight=2, make=lambda maker: maker.step("publish"), run=_run_publish,
            fits=lambda step, value: bool(value == ["published", step.n]), at_once=lambda _: True,
        ),
    }
)  # fmt: skip
