"""Makes a failing scenario smaller while the same invariant fails: fewer acts and faults, simpler programs.

Greedy: it tries large cuts first, and starts again after each cut that keeps the failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import attrs

from simulation.children import STARTS
from simulation.scenario import Scenario, Verb
from simulation.steps import Step, read, write
from simulation.violation import Violation
from simulation.world import simulate

T = TypeVar("T")


def failure(scenario: Scenario) -> Violation | None:
    """The violation with which a scenario fails, or None."""
    try:
        simulate(scenario)
    except Violation as violation:
        return violation
    return None


def shrink(scenario: Scenario, invariant: str, *, tries: int = 3_000) -> Scenario:
    """A smaller scenario that breaks the same invariant, or the same scenario if `tries` runs find none."""
    while tries > 0:
        for smaller in smaller_scenarios(scenario):
            tries -= 1
            violation = failure(smaller)
            if violation is not None and violation.invariant == invariant:
                scenario = smaller
                break
            if tries <= 0:
                break
        else:
            break
    return scenario


def smaller_scenarios(scenario: Scenario) -> Iterator[Scenario]:
    """Every scenario with one cut, the largest cuts first."""
    for id in dict.fromkeys(act.id for act in scenario.acts if act.verb is Verb.START):
        acts = tuple(act for act in scenario.acts if act.id is None or not f"{act.id}.".startswith(f"{id}."))
        yield attrs.evolve(scenario, acts=acts)
    yield from (attrs.evolve(scenario, faults=faults) for faults in _cuts(scenario.faults))
    yield from (attrs.evolve(scenario, acts=acts) for acts in _cuts(scenario.acts))
    for name in scenario.config:
        remaining = {option: value for option, value in scenario.config.items() if option != name}
        yield attrs.evolve(scenario, config=remaining)
    if scenario.shards > 1:
        yield attrs.evolve(scenario, shards=scenario.shards - 1)
    if scenario.commit_ms:
        yield attrs.evolve(scenario, commit_ms=0)
    if scenario.new_code:
        yield attrs.evolve(scenario, new_code=0)
    if scenario.codeless:
        yield attrs.evolve(scenario, codeless=())
    yield from _with_smaller_programs(scenario)


def _cuts(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """A tuple without each half, without each quarter, and so on down to without each item."""
    size = len(items)
    while size:
        size = (size + 1) // 2
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        if size == 1:
            return


def _with_smaller_programs(scenario: Scenario) -> Iterator[Scenario]:
    for program in dict.fromkeys(act.program for act in scenario.acts if act.program):
        for step in smaller_steps(read(program)):
            text = write(step)
            acts = (attrs.evolve(act, program=text) if act.program == program else act for act in scenario.acts)
            yield attrs.evolve(scenario, acts=tuple(acts))


def smaller_steps(step: Step) -> Iterator[Step]:
    """Every step with one cut: one of its inner steps instead of it, one inner step less, or a simpler setting."""
    for index, inner in enumerate(step.steps):
        if step.op not in ("rounds", *STARTS) and inner.op != "rounds":
            yield inner
        if len(step.steps) > 1:
            yield attrs.evolve(step, steps=step.steps[:index] + step.steps[index + 1 :])
        for smaller in smaller_steps(inner):
            if step.op not in ("rounds", *STARTS) or smaller.op == inner.op:
                yield attrs.evolve(step, steps=(*step.steps[:index], smaller, *step.steps[index + 1 :]))
    plain_settings = {"fails": 0, "limit": None, "key": None, "expires": None, "gap": 0, "asks": 1, "stops": False}
    for name, plain in plain_settings.items():
        if step.settings.get(name, plain) != plain:
            yield attrs.evolve(step, settings=step.settings | {name: plain})
