"""A scenario: what clients do and what goes wrong, as one value that follows from a seed.

Programs, acts and faults are explicit lists instead of draws, so that a failing scenario can be written to a file, and
made smaller by leaving things out. Only durations, and the order of things at one instant, are drawn while it runs.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from durable.engine.config import EngineConfig
from durable.model.records import DeadLetterPolicy
from simulation import hardships, sending
from simulation.branch_rows import BRANCH_ROWS
from simulation.change_rows import CHANGE_ROWS, deployment
from simulation.children import STARTS, child_id
from simulation.dice import Dice
from simulation.kinds import KINDS
from simulation.loop_rows import LOOP_ROWS
from simulation.planning import clock_steps, dice_of, grace, make_schedules
from simulation.rows import add, make_program
from simulation.steps import Step, from_json, read, to_json, write
from simulation.travel import make_travellers
from simulation.troubles import Fault, Trouble, make_faults, shard_count, spread

YEARS = 3650 * 86_400.0
add(BRANCH_ROWS | LOOP_ROWS | CHANGE_ROWS)


class Verb(enum.Enum):
    """What a client can do."""

    START = "start"
    SEND = "send"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    RETRY = "retry"
    FORK = "fork"
    AWAIT = "await"
    WATCH = "watch"
    FIND = "find"
    DESCRIBE = "describe"
    HISTORY = "history"
    REPLAY = "replay"
    ANSWER = "answer"
    TAKE_BACK = "take back"
    SCHEDULE = "create schedule"
    PAUSE_SCHEDULE = "pause schedule"
    RESUME_SCHEDULE = "resume schedule"
    TRIGGER_SCHEDULE = "trigger schedule"
    DELETE_SCHEDULE = "delete schedule"


SCHEDULING = (
    Verb.SCHEDULE, Verb.PAUSE_SCHEDULE, Verb.RESUME_SCHEDULE, Verb.TRIGGER_SCHEDULE, Verb.DELETE_SCHEDULE,
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Act:
    """One call of a client, repeated until it is answered. The client's next act comes after that answer."""

    client: int
    # Not before this millisecond.
    at: int
    verb: Verb
    # The workflow that the call is about, or that an event is sent to; or the schedule.
    id: str | None = None
    # The program to start, and how many milliseconds later its body begins.
    program: str = ""
    delay: int = 0
    # The event that is sent; its id is in its payload as well.
    event: str = ""
    key: str | None = None
    event_id: str = ""
    # The question to answer, by the number of its step; the delay is then the time between seeing and answering it.
    number: int = 0
    # Whether it may come before its workflow is started (for a retry: before it fails); and whether it is made again
    # after the answer.
    is_early: bool = False
    is_repeated: bool = False
    # The plan and policies of the schedule to create. `run` is the id of the run to trigger, or of the fork at entry
    # `number`.
    cron: str = ""
    every: int = 0
    overlap: str = ""
    catch_up: str = ""
    run: str = ""


@attrs.frozen(kw_only=True)
class Scenario:
    """Everything that happens in one simulation."""

    seed: int
    # How many shards the store has, each with its own coordinator.
    shards: int = 1
    # Settings of the engine that differ from the default: tiny limits put it under pressure.
    config: dict[str, int] = attrs.field(factory=dict)
    policy: DeadLetterPolicy = DeadLetterPolicy.MOVE_TO_DEAD_LETTER
    # How many milliseconds a commit may take: the slower, the larger the batches.
    commit_ms: int = 0
    # The first start of the process that has the new code; 0 for never.
    new_code: int = 0
    # The starts of the process after which it runs without any code, until it is restarted.
    codeless: tuple[int, ...] = ()
    acts: tuple[Act, ...] = ()
    faults: tuple[Fault, ...] = ()

    def engine_config(self) -> EngineConfig:
        """The settings as the engine takes them."""
        settings: dict[str, Any] = {"event_retention": YEARS} | self.config
        return EngineConfig(dead_letter_policy=self.policy, **settings)


# --- from a seed ----------------------------------------------------------------------------------------------------

_CLIENTS = 4


def make_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    dice = Dice(seed)
    scenario = Scenario(
        seed=seed,
        config=_config(dice),
        policy=dice.weighted({policy: 1 + 4 * (policy is DeadLetterPolicy.MOVE_TO_DEAD_LETTER) for policy in POLICIES}),
        commit_ms=dice.weighted({0: 1, 10: 1, 100: 1, 1_000: 4, 4_000: 6}),
        new_code=deployment(seed),
        acts=tuple(sorted(_acts(dice), key=lambda act: act.at)),
        faults=tuple(make_faults(dice)),
    )
    scenario = _with_poison(_with_late_mail(_with_deadly_bodies(_with_schedules(scenario))))
    return _with_shards(_with_operators(_without_code(scenario)))


def _with_shards(scenario: Scenario) -> Scenario:
    """The same, perhaps in a store with several shards. Schedules do not work there, so they are left out."""
    shards = shard_count(scenario.seed)
    if shards == 1:
        return scenario
    acts = [*(act for act in scenario.acts if act.verb not in SCHEDULING), *_travellers(scenario.seed)]
    faults = tuple(spread(scenario.seed, shards, scenario.faults))
    if "event_retention" in scenario.config:
        # A call that lies in a shard which does nothing may come after the time for which its event id is known.
        faults = tuple(fault for fault in faults if fault.trouble is not Trouble.STALL)
    return attrs.evolve(scenario, shards=shards, acts=tuple(sorted(acts, key=lambda act: act.at)), faults=faults)


def _travellers(seed: int) -> Iterator[Act]:
    """Workflows that reach into other shards, what is sent to them, and operators who retry them."""
    dice = Dice(f"travels {seed}")
    for index, (id, program) in enumerate(make_travellers(seed)):
        at = dice.below(10_000)
        yield Act(client=1_000_000 + index, at=at, verb=Verb.START, id=id, program=write(program))
        for count, (owner, step) in enumerate(waits(program, id)):
            yield _send(dice, 1_000 * (index + 1) + count, owner, step)
        for count, step in enumerate(step for step in program.walk() if step.op == "pause"):
            yield from _answers(dice, 2_000_000 + 100_000 * index + 2 * count, step)
        if dice.chance(0.3):
            yield Act(client=3_000_000 + index, at=at + dice.below(60_000), verb=Verb.RETRY, id=id)


def _with_poison(scenario: Scenario) -> Scenario:
    """The same, perhaps with unreadable events, and with workflows that send events themselves."""
    sends = [attrs.asdict(act, value_serializer=_plain) for act in scenario.acts if act.verb is Verb.SEND]
    seed = scenario.seed
    return _with_acts(scenario, [*hardships.make_poison(seed, sends), *sending.make_senders(seed, sends)])


def _with_late_mail(scenario: Scenario) -> Scenario:
    """The same, perhaps with mail that is not taken in time; not if the clock is set, which would end retentions."""
    config = hardships.short_retention(scenario.seed)
    if not config or any(fault.trouble is Trouble.CLOCK for fault in scenario.faults):
        return scenario
    return _with_acts(attrs.evolve(scenario, config=scenario.config | config), hardships.make_late_mail(scenario.seed))


def _with_operators(scenario: Scenario) -> Scenario:
    """The same, perhaps with operators who retry and fork.

    Workflows that spawn are not forked: the children would end with the source of the fork.
    """
    starts = [act for act in scenario.acts if act.verb is Verb.START]
    ids = [*dict.fromkeys(act.id or "" for act in starts)]
    calm = [id for id in ids if not any(act.id == id and '"spawn"' in act.program for act in starts)]
    return _with_acts(scenario, hardships.make_repairs(scenario.seed, ids, calm))


def _without_code(scenario: Scenario) -> Scenario:
    """The same, perhaps with lives of the process in which the code is missing, and restarts that end them."""
    lives, restarts = hardships.codeless_lives(scenario.seed)
    faults = (Fault(Trouble.RESTART, at) for at in restarts)
    return attrs.evolve(scenario, codeless=lives, faults=(*scenario.faults, *faults))


def _with_acts(scenario: Scenario, more: Iterable[dict[str, Any]]) -> Scenario:
    """The same with more acts, which are JSON values."""
    return attrs.evolve(scenario, acts=tuple(sorted([*scenario.acts, *map(_act, more)], key=lambda act: act.at)))


def _with_deadly_bodies(scenario: Scenario) -> Scenario:
    """The same, perhaps with bodies in which the process dies; from separate dice, like schedules."""
    dice = Dice(~scenario.seed)
    faults = [Fault(Trouble.CRASH_IN_BODY, dice.between(1, 150)) for _ in range(dice.between(0, 2))]
    if not dice.chance(0.1):
        return attrs.evolve(scenario, faults=(*scenario.faults, *faults))
    faults.append(Fault(Trouble.POISON, dice.below(3), dice.below(4)))
    return attrs.evolve(scenario, config=scenario.config | {"max_crashes": 3}, faults=(*scenario.faults, *faults))


def _with_schedules(scenario: Scenario) -> Scenario:
    """The same, perhaps with schedules; everything else in it stays as it is."""
    dice = dice_of(scenario.seed)
    more = [*map(_act, make_schedules(dice))]
    if not more:
        return scenario
    return attrs.evolve(
        scenario,
        config=scenario.config | grace(dice),
        acts=tuple(sorted([*scenario.acts, *more], key=lambda act: act.at)),
        faults=(*scenario.faults, *(Fault(Trouble.CLOCK, at, by) for at, by in clock_steps(dice))),
    )


POLICIES = tuple(DeadLetterPolicy)


def _config(dice: Dice) -> dict[str, int]:
    """Settings that put many engines under pressure: few bodies in memory, small batches, a short window of timers."""
    config: dict[str, int] = {}
    if not dice.chance(0.1):
        # Otherwise the default applies: after three crashes without progress a workflow is parked.
        config["max_crashes"] = 1_000
    if dice.chance(0.3):
        config["max_loaded_workflows"] = dice.between(1, 6)
    if dice.chance(0.3):
        config["max_batch"] = dice.between(1, 4)
    if dice.chance(0.4):
        config["timer_window"] = dice.between(1, 3)
    return config


def _acts(dice: Dice) -> Iterator[Act]:
    """The acts of clients and people: starts, an event for each wait, answers for each pause, and some meddling."""
    number = 0
    ids: list[str] = []
    demands: list[tuple[str | None, Step]] = []
    questions: list[Step] = []
    # Most scenarios are small: many small ones find more than a few large ones. Some invariants need a crowd.
    for index in range(dice.between(7, 11) if dice.chance(0.15) else dice.between(3, 5)):
        id = f"w{index}"
        programs = [make_program(dice, number, dice.between(3, 8))]
        number = programs[0].n
        if dice.chance(0.06):
            # Another client wants to start another program with this id, and may come first.
            programs.append(make_program(dice, number, 1))
            number = programs[1].n
        yield from _starts(dice, id, programs)
        here = [wait for program in programs for wait in waits(program, id)]
        demands += here
        questions += [step for program in programs for step in program.walk() if step.op == "pause"]
        ids += {id: None} | {owner: None for owner, _ in here if owner}
    for count, (owner, step) in enumerate(demands):
        yield _send(dice, count, owner, step)
    for count, step in enumerate(questions):
        yield from _answers(dice, 1_000 + 2 * count, step)
    yield from _meddling(dice, ids)


def _starts(dice: Dice, id: str, programs: list[Step]) -> Iterator[Act]:
    """A workflow's start, perhaps twice, and perhaps clients that wait for its end or watch it."""
    at = dice.below(4_000)
    delay = dice.between(1, 6_000) if dice.chance(0.2) else 0
    start = Act(client=_starter(dice), at=at, verb=Verb.START, id=id, program=write(programs[0]), delay=delay)
    yield start
    if len(programs) > 1 or dice.chance(0.15):
        again = max(0, at + dice.between(-500, 500))
        yield attrs.evolve(start, client=_starter(dice), at=again, program=write(programs[-1]))
    if dice.chance(0.6):
        # A separate client: it is busy until the end of the workflow.
        yield Act(client=100 + int(id[1:]), at=at + dice.below(9_000), verb=Verb.AWAIT, id=id)
    if dice.chance(0.3):
        yield Act(client=200 + int(id[1:]), at=at + dice.below(9_000), verb=Verb.WATCH, id=id)


def _starter(dice: Dice) -> int:
    """A client that only starts workflows, so that no client waits for a start behind its own earlier call."""
    return 10 + dice.below(_CLIENTS)


def waits(program: Step, id: str | None) -> Iterator[tuple[str | None, Step]]:
    """Every wait for an event in a program and its children, with the waiting workflow's id, if clients know it."""
    for step in program.steps:
        if step.op == "event":
            yield id, step
        inner = id
        if step.op in STARTS:
            inner = child_id(id, step) if id is not None and step["is_known"] else None
        yield from waits(step, inner)


def _send(dice: Dice, count: int, owner: str | None, step: Step) -> Act:
    """One event for each wait, so that all waits can be served no matter which takes which."""
    name, key = step["event"], step["key"]
    return Act(
        client=dice.below(_CLIENTS),
        at=dice.below(3_000) if dice.chance(0.4) else dice.between(3_000, 60_000),
        verb=Verb.SEND,
        id=owner if KINDS[name.partition("-")[0]].is_targeted else None,
        event=name,
        key=key,
        event_id=f"{name}/{key}/{count}",
        # A child may start at any time, or never, so a client cannot wait for its start.
        is_early=dice.chance(0.5) or (owner is not None and "." in owner),
        is_repeated=dice.chance(0.1),
    )


def _answers(dice: Dice, client: int, step: Step) -> Iterator[Act]:
    """One person for a question, sometimes two; sometimes none if it can expire. Each person has only this act."""
    if step["expires"] is not None and dice.chance(0.3):
        return
    for person in range(client, client + (2 if dice.chance(0.2) else 1)):
        yield Act(
            client=person,
            at=dice.below(4_000),
            verb=Verb.TAKE_BACK if dice.chance(0.15) else Verb.ANSWER,
            number=step.n,
            delay=dice.weighted({0: 2, 300: 2, 2_000: 2, 15_000: 1}),
            is_repeated=dice.chance(0.3),
        )


def _meddling(dice: Dice, ids: list[str]) -> Iterator[Act]:
    """Cancels, terminations, questions and replays at random times."""
    verbs = {Verb.CANCEL: 3, Verb.TERMINATE: 1, Verb.FIND: 3, Verb.DESCRIBE: 3, Verb.HISTORY: 1, Verb.REPLAY: 1}
    for _ in range(dice.between(0, 5)):
        verb = dice.weighted(verbs)
        id = None if verb is Verb.REPLAY and dice.chance(0.5) else ids[dice.below(len(ids))]
        yield Act(client=dice.below(_CLIENTS), at=dice.below(40_000), verb=verb, id=id)


# --- as text --------------------------------------------------------------------------------------------------------


def scenario_to_text(scenario: Scenario) -> str:
    """A scenario as JSON that a person can read and edit. Defaults are left out."""
    value = attrs.asdict(scenario, value_serializer=_plain, filter=_is_written)
    for act in value["acts"]:
        if "program" in act:
            act["program"] = to_json(read(act["program"]))
    return json.dumps(value, indent=1)


def _plain(_owner: Any, _field: Any, value: Any) -> Any:
    return value.name if isinstance(value, enum.Enum) else value


def _is_written(field: attrs.Attribute[Any], value: Any) -> bool:
    return bool(value != field.default)


def scenario_from_text(text: str) -> Scenario:
    """The scenario in a JSON text, as `scenario_to_text` writes it."""
    value = json.loads(text)
    return Scenario(
        seed=value["seed"],
        shards=value.get("shards", 1),
        config=value.get("config", {}),
        policy=DeadLetterPolicy[value.get("policy", DeadLetterPolicy.MOVE_TO_DEAD_LETTER.name)],
        commit_ms=value.get("commit_ms", 0),
        new_code=value.get("new_code", 0),
        codeless=tuple(value.get("codeless", ())),
        acts=tuple(_act(act) for act in value.get("acts", ())),
        faults=tuple(Fault(**fault | {"trouble": Trouble[fault["trouble"]]}) for fault in value.get("faults", ())),
    )


def _act(value: dict[str, Any]) -> Act:
    program = write(from_json(value["program"])) if value.get("program") else ""
    return Act(**value | {"verb": Verb[value["verb"]], "program": program})
