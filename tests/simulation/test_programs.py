"""Random programs: everything that can happen does happen, and the oracle is not blind."""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import Any

import pytest

from durable.engine.operations.letters import LETTERS
from durable.engine.operations.messages import ChildRefused, LetterRefused, Message, RetryChild
from durable.model.records import WorkflowStatus
from simulation.kinds import KINDS, is_unreadable, payload_of
from simulation.rows import ROWS, errors, fits
from simulation.scenario import Scenario, Verb, make_scenario
from simulation.steps import Step, read
from simulation.troubles import Trouble, shard_count
from simulation.world import World, simulate

SCENARIOS = [make_scenario(seed) for seed in range(60)]
# A seed in which a dead letter is replayed to a workflow of another shard.
REPLAYS_ELSEWHERE = 316


def _programs(scenario: Scenario) -> list[Step]:
    return [read(act.program) for act in scenario.acts if act.verb is Verb.START]


def test_generator_leaves_nothing_out() -> None:
    """Sixty seeds contain every op, every kind of event, every act and every trouble."""
    steps = [step for scenario in SCENARIOS for program in _programs(scenario) for step in program.walk()]
    assert {step.op for step in steps} == set(ROWS)
    assert {step["event"].partition("-")[0] for step in steps if step.op == "event"} == set(KINDS)
    assert {act.verb for scenario in SCENARIOS for act in scenario.acts} == set(Verb)
    assert {fault.trouble for scenario in SCENARIOS for fault in scenario.faults} == set(Trouble)


def test_generator_has_every_hardship() -> None:
    """Sixty seeds contain unreadable events, events with a retention, and lives without code."""
    sent = [act.event_id for scenario in SCENARIOS for act in scenario.acts if act.verb is Verb.SEND]
    assert any(is_unreadable(payload_of(event_id)) for event_id in sent)
    assert any("event_retention" in scenario.config for scenario in SCENARIOS)
    assert any(scenario.codeless for scenario in SCENARIOS)


@functools.cache
def _worlds() -> list[World]:
    return [simulate(scenario) for scenario in SCENARIOS[:5]]


def test_all_workflows_come_to_an_end() -> None:
    """In the end only workflows that were parked for their crashes, and forks, are unfinished."""
    for world in _worlds():
        lives = world.checker.ledger.lives.values()
        # Nobody sends anything to a fork.
        originals = [life.record for life in lives if not life.record.id.startswith("fork")]
        left = [record for record in originals if not record.status.is_terminal]
        assert not left or any(record.status is WorkflowStatus.PARKED for record in left)


def _spoilt(value: Any) -> list[Any]:
    """Every variant of a value with one thing wrong."""
    if isinstance(value, list):
        wrong = [
            [*value[:i], wrong_item, *value[i + 1 :]] for i, item in enumerate(value) for wrong_item in _spoilt(item)
        ]
        return [*wrong, value[:-1]] if value else [["more"]]
    if isinstance(value, bool):
        return [not value]
    return [value + 1000] if isinstance(value, int) else ["other"]


def test_oracle_refuses_what_is_not_right() -> None:
    """A right result with one change is wrong."""
    count = 0
    for world in _worlds():
        for life in world.checker.ledger.lives.values():
            if life.record.status is WorkflowStatus.SUCCEEDED:
                program = read(json.loads(life.record.input)["program"])
                result = json.loads(life.record.result or "")
                assert fits(program, result)
                for wrong in _spoilt(result):
                    assert not _fits_safely(program, wrong), wrong
                    count += 1
    assert count > 500


def _fits_safely(program: Step, value: Any) -> bool:
    # A value of another shape is just as wrong.
    try:
        return fits(program, value)
    except (IndexError, TypeError, ValueError):
        return False


@pytest.mark.parametrize("ends", ["badly", "stubbornly"])
def test_oracle_knows_which_errors_are_right(ends: str) -> None:
    """A step that fails for good raises its own error and no other, and a step that catches it lets none through."""
    step = Step("work", 7, {"fails": 1, "ends": ends, "limit": None, "default": False})
    assert errors(step) == {"Broken(7)" if ends == "badly" else "Stubborn(7)"}
    assert not fits(step, ["done", 7, 2])
    assert errors(Step("sequence", 8, {}, (step,))) == errors(step)
    assert errors(Step("attempt", 8, {}, (step,))) == frozenset()


def test_forty_per_cent_of_scenarios_have_several_shards() -> None:
    """Of a thousand seeds, 40 % have two or three shards, and faults strike in all of them."""
    counts = Counter(shard_count(seed) for seed in range(1_000))
    assert set(counts) == {1, 2, 3}
    assert counts[2] + counts[3] >= 400
    assert min(counts[2], counts[3]) >= 150
    struck = {(scenario.shards, fault.shard) for scenario in SCENARIOS for fault in scenario.faults}
    assert struck == {(shards, shard) for shards in (1, 2, 3) for shard in range(shards)}


def test_every_letter_between_shards_is_written() -> None:
    """Sixty-one seeds write every kind of letter except three, which the simulation does not reach.

    The three are a retry and two refusals. `tests/cluster` writes them.
    """
    written: set[type[Message]] = set()
    for scenario in (*SCENARIOS, make_scenario(REPLAYS_ELSEWHERE)):
        if scenario.shards > 1:
            world = simulate(scenario)
            written |= world.checker.ledger.post.kinds
    assert set(LETTERS.values()) - written == {RetryChild, ChildRefused, LetterRefused}
