"""What the clients of each canonical workflow do, as values: a script is a list of calls, waits and deployments."""

from __future__ import annotations

import json
from typing import Any

import attrs

from durable.engine import operations as ops
from durable.engine.operations import ForkWorkflow, ListLetters, RepairWorkflow, ReplayLetter, RetryWorkflow
from durable.errors import (
    CannotRetry,
    DeadLetterNotFound,
    PauseAlreadyAnswered,
    PauseCancelled,
    ScheduleNotFound,
    WorkflowAlreadyExists,
)
from durable.model.records import EntryKind
from durable.model.schedule import CatchUp, Overlap
from tests.engine.agenda import schedule_of
from tests.engine.direct import call_of, event_of
from tests.exhaustive import flows
from tests.exhaustive.flows import fresh, go, news, stay
from tests.exhaustive.flows_of_changes import WORLD
from tests.exhaustive.service import Service


@attrs.frozen
class Wait:
    """Let time pass."""

    seconds: float


@attrs.frozen
class Let:
    """Let the held activities continue."""


@attrs.frozen
class Replay:
    """An operator sends the oldest dead letter to a workflow."""

    to: str | None


@attrs.frozen
class Deploy:
    """The process stops, and the next one runs the new code."""


@attrs.frozen
class Mend:
    """The cause of the failing activities is gone."""


Step = ops.Operation[Any] | Wait | Let | Replay | Deploy | Mend


@attrs.frozen
class Script:
    """A canonical workflow, what happens to it, and its minimum of commits, store calls and steps."""

    name: str
    steps: tuple[Step, ...]
    commits: int
    store_calls: int
    moments: int
    # Attempts that run again because an operator asked for it.
    again: int = 0

    @property
    def starts(self) -> int:
        """How many processes it takes if nothing goes wrong."""
        return 1 + sum(isinstance(step, Deploy) for step in self.steps)

    def play(self, service: Service) -> list[Any]:
        """Do all steps. Returns the replies of the clients."""
        WORLD.update(dict.fromkeys(WORLD, False))
        service.held.add("points.slow")
        replies: list[Any] = []
        for step in self.steps:
            self._do(service, step, replies)
            service.work()
        return replies

    def _do(self, service: Service, step: Step, replies: list[Any]) -> None:
        if isinstance(step, Wait):
            service.wait(step.seconds)
        elif isinstance(step, Let):
            service.held.clear()
        elif isinstance(step, Replay):
            letters = service.ask(ListLetters(after=0, limit=1))
            answer = service.ask(ReplayLetter(letters[0].id, step.to))
            # A client that repeats this, because it missed the answer, finds that the letter is gone.
            assert isinstance(answer, ops.Delivered | ops.Queued | DeadLetterNotFound)
        elif isinstance(step, ops.CancelWorkflow):
            # A client that repeats this may find that the workflow has ended meanwhile.
            assert service.ask(step, is_done=lambda: _is_cancelled(service, step)) in (True, False, None)
        elif isinstance(step, ops.TerminateWorkflow):
            assert service.ask(step) in (True, False)
        elif isinstance(step, ops.ResumePause | ops.CancelPause):
            # A client that repeats this, because it missed the answer, finds that it is done.
            answer = service.ask(step)
            replies.append(
                "" if answer is None or isinstance(answer, PauseAlreadyAnswered | PauseCancelled) else repr(answer)
            )
        elif isinstance(step, ops.ListPauses):
            replies.append(
                [(listed.number, listed.pause_id, listed.prompt, listed.expects) for listed in service.ask(step)]
            )
        elif isinstance(step, ops.DeleteSchedule):
            assert isinstance(service.ask(step), None | ScheduleNotFound)
        elif isinstance(step, ops.CreateSchedule | ops.TriggerSchedule):
            replies.append(service.ask(step).key)
        elif isinstance(step, Deploy):
            WORLD["has new code"] = True
            service.stop_undisturbed()
            service.settle()
        elif isinstance(step, Mend):
            WORLD["is mended"] = True
        elif isinstance(step, RetryWorkflow | ForkWorkflow):
            # A client that repeats this, because it missed the answer, finds that the workflow runs.
            answer = service.ask(step)
            assert answer is None or isinstance(answer, CannotRetry | WorkflowAlreadyExists), answer
        elif isinstance(step, RepairWorkflow):
            assert service.ask(step, is_done=lambda: _is_repaired(service, step)) is None
        else:
            answer = service.ask(step)
            replies.append(answer.key if isinstance(step, ops.StartWorkflow) else answer)


def _is_repaired(service: Service, step: RepairWorkflow) -> bool:
    """Whether the repair is done. An operator who missed the answer checks this, because a second one would be kept."""
    noted = service.ask(ops.ReadHistory(step.id))
    return any((entry.kind, entry.position) == (EntryKind.REPAIRED, step.position) for entry in noted)


def _is_cancelled(service: Service, step: ops.CancelWorkflow) -> bool:
    """Whether the cancel is done. A client that missed the answer checks this, because a second one would be raised."""
    noted = service.ask(ops.ReadHistory(step.id))
    return any((entry.kind, entry.outcome) == (EntryKind.CANCEL, json.dumps(step.reason)) for entry in noted)


def start_of(call: Any, id: str = "w", **more: Any) -> ops.StartWorkflow:
    """Start a workflow."""
    return call_of(call, id, **more)


def go_of(payload: int, to: str | None = "w", **more: Any) -> ops.SendEvent:
    """Send the event that most workflows wait for."""
    return event_of(go, payload, to=to, event_id=f"go {payload}", **more)


# The id of the run of a tick.
TICK = "s@2031-05-17T12:{:02}:00+00:00"

SCRIPTS = (
    Script("sequence", (start_of(flows.sequence()),), 5, 12, 5),
    Script("retries then success", (start_of(flows.retried(2)), Wait(15), Wait(30)), 7, 14, 7),
    Script("retries exhausted and caught", (start_of(flows.retried(3)), Wait(15), Wait(30)), 7, 14, 7),
    Script("sleep and sleep_until", (start_of(flows.sleeper()), Wait(60), Wait(100), Wait(400)), 4, 17, 5),
    Script(
        "targeted event before the wait",
        (
            start_of(flows.busy_waiter()),
            go_of(1), go_of(2, key="k"), go_of(3),
            event_of(fresh, 4, event_id="too early"),
            Let(),
            event_of(fresh, 5, event_id="in time"),
        ),
        8, 30, 8,
    ),
    Script("targeted event after the wait", (start_of(flows.waiter(3)), go_of(1), go_of(2), go_of(3)), 7, 18, 7),
    Script(
        "untargeted event",
        (
            go_of(1, to=None),
            start_of(flows.waiter(2), "a"), start_of(flows.waiter(), "b"),
            go_of(2, to=None), go_of(3, to=None), go_of(4, to=None),
        ),
        9, 27, 9,
    ),
    Script(
        "event that a workflow sends",
        (start_of(flows.waiter(2), "a"), start_of(flows.sender("a"), "b"), start_of(flows.waiter(), "c")),
        7, 20, 6,
    ),
    Script(
        "broadcast",
        (
            start_of(flows.reader(2), "a"), start_of(flows.reader(1), "b"),
            event_of(news, 1, event_id="n 1"),
            start_of(flows.reader(2), "c"),
            event_of(news, 2, event_id="n 2"),
        ),
        5, 25, 5,
    ),
    Script("gather", (start_of(flows.gatherer()), go_of(4), Wait(20), Let(), Wait(100)), 8, 19, 8),
    Script("race of event and timer", (start_of(flows.racer()), Wait(10), go_of(1), Wait(150), Wait(100)), 4, 17, 6),
    Script(
        "nested race in a gather",
        (start_of(flows.nested()), go_of(1, key="1"), Wait(60), Let(), event_of(stay, 1, event_id="s"), Wait(60)),
        8, 24, 9,
    ),
    Script(
        "within and or_default",
        (start_of(flows.patient()), Wait(70), go_of(1), Wait(10), Wait(40), Let()),
        4, 15, 5,
    ),
    Script("awaited child", (start_of(flows.parent()),), 6, 14, 6),
    Script("child that fails and is caught", (start_of(flows.guardian()),), 3, 11, 3),
    Script("children three deep", (start_of(flows.deep(3)), go_of(1, to="w/1/1/1")), 6, 18, 6),
    Script(
        "continue_as with pending events",
        (start_of(flows.rounds(3, [])), go_of(1), go_of(2), go_of(3), go_of(4), Let()),
        11, 33, 11,
    ),
    Script(
        "cancel with cleanup",
        (start_of(flows.tidy()), go_of(1), ops.CancelWorkflow("w", "enough"), Wait(30), Let()),
        6, 17, 6,
    ),
    Script(
        "delayed start",
        (go_of(1, allow_unstarted=True), start_of(flows.waiter(2), delay=60), go_of(2), Wait(30), Wait(40)),
        6, 28, 7,
    ),
    Script(
        "delayed start that comes late",
        (start_of(flows.patient(), delay=60), go_of(1), Wait(1000), go_of(2), Let()),
        5, 24, 5,
    ),
    Script(
        "dead letter and replay",
        (
            start_of(flows.waiter(1)),
            start_of(flows.busy_waiter(), "v"),
            go_of(1, to="v"), go_of(2, to="v"), event_of(stay, 3, to="v", event_id="stay 3"),
            ops.TerminateWorkflow("v", "enough"),
            Replay(None),
            start_of(flows.waiter(2), "x"),
            Replay("x"),
            Replay("x"),
        ),
        12, 34, 15,
    ),
    Script(
        "pauses",
        (
            start_of(flows.panel()),
            ops.ListPauses(after=0, limit=9),
            ops.ResumePause("w", "0.1.0", "2"), Wait(60),
            ops.ResumePause("w", "0.0.0", '"no number"'), ops.ResumePause("w", "0.0.0", "1"), Wait(60),
            ops.ResumePause("w", "0.2.0.0.0", "7"), ops.ResumePause("w", "0.1.2", "3"),
            ops.ListPauses(after=0, limit=9), Wait(60),
            ops.CancelPause("w", "2", "enough"),
        ),
        9, 25, 14,
    ),
    Script("undos of a workflow that fails", (start_of(flows.undoer()), Wait(15), Wait(30), Wait(30)), 13, 22, 13),
    Script("undos of sagas", (start_of(flows.renter()), go_of(1), Wait(30), Let(), Wait(30)), 12, 23, 12),
    Script(
        "cancel while a saga is undone",
        (
            start_of(flows.renter()), go_of(1),
            ops.CancelWorkflow("w", "enough"), Wait(30), ops.CancelWorkflow("w", "late"),
        ),
        9, 18, 10,
    ),
    Script("spawned children asked for later", (start_of(flows.spawner()), go_of(1), go_of(2, to="w/1")), 8, 23, 8),
    Script(
        "spawned children kept and not",
        (start_of(flows.leaver()), go_of(1), Wait(30), go_of(2, to="w/0"), Let()),
        8, 26, 8,
    ),
    Script(
        "spawned children three deep",
        (start_of(flows.dynasty(3)), ops.TerminateWorkflow("w/1/0", "enough"), go_of(1, to="w/1/1/1")),
        10, 51, 10,
    ),
    Script(
        "progress in rounds",
        (start_of(flows.teller(3), delay=60), Wait(70), go_of(1), Wait(150), go_of(2)),
        10, 38, 8,
    ),
    # Waits end in the middle of a minute: the clock may be some seconds ahead because of a trial.
    Script(
        "schedule: ticks and a pause",
        (
            schedule_of(flows.deep(0), "s"),
            Wait(70), ops.PauseSchedule("s"), Wait(60), ops.ResumeSchedule("s"), go_of(1, to=TICK.format(1)),
            Wait(60), ops.DeleteSchedule("s"), Wait(60), go_of(3, to=TICK.format(3)),
        ),
        12, 47, 12,
    ),
    Script(
        "schedule: triggered",
        (
            schedule_of(flows.deep(0), "s"), ops.TriggerSchedule("s", "t"),
            Wait(70), go_of(1, to="t"), Wait(60), go_of(2, to=TICK.format(2)),
        ),
        10, 39, 8,
    ),
    Script(
        "schedule: in line, all caught up",
        (
            schedule_of(flows.waiter(), "s", overlap=Overlap.QUEUE, catch_up=CatchUp.ALL),
            Wait(190), go_of(1, to=TICK.format(1)), ops.TerminateWorkflow(TICK.format(2)), Wait(60),
            go_of(3, to=TICK.format(3)),
        ),
        15, 56, 8,
    ),
    Script(
        "schedule: missed ticks",
        (
            schedule_of(flows.unlucky(1), "none", cron="*/2 * * * *"),
            schedule_of(flows.unlucky(2), "last", cron="*/2 * * * *", catch_up=CatchUp.LAST),
            Wait(310), Wait(60),
        ),
        7, 38, 7,
    ),
    Script(
        "settled branches",
        (start_of(flows.settler()), Wait(15), go_of(4, key="4"), Wait(30), Wait(60), Let()),
        11, 22, 11,
    ),
    Script(
        "first success",
        (start_of(flows.optimist()), Wait(15), Wait(30), Wait(60), go_of(1)),
        9, 21, 9,
    ),
    Script("a few at a time", (start_of(flows.spreader()), go_of(3, key="3"), go_of(1, key="1")), 9, 19, 9),
)  # fmt: skip
