"""What the clients of each canonical workflow do, as values: a script is a list of calls, pauses and permissions."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine import operations as ops
from durable.errors import DeadLetterNotFound
from durable.pause_errors import PauseAlreadyAnswered, PauseCancelled
from durable.schedule import CatchUp, Overlap
from durable.schedule_errors import ScheduleNotFound
from tests.engine.agenda import schedule_of
from tests.engine.desk import call_of, event_of
from tests.exhaustive import flows
from tests.exhaustive.flows import fresh, go, news, stay
from tests.exhaustive.service import Service


@attrs.frozen
class Wait:
    """Time passes."""

    seconds: float


@attrs.frozen
class Let:
    """The activities that were held may go on."""


@attrs.frozen
class Replay:
    """An operator sends the oldest dead letter to a workflow."""

    to: str | None


Step = ops.Operation[Any] | Wait | Let | Replay


@attrs.frozen
class Script:
    """A canonical workflow and what happens to it, with the least it takes: commits, calls of the store, steps."""

    name: str
    steps: tuple[Step, ...]
    commits: int
    store_calls: int
    moments: int

    def play(self, service: Service) -> list[Any]:
        """Do all of it; what the clients were told."""
        service.held.add("points.slow")
        told: list[Any] = []
        for step in self.steps:
            self._do(service, step, told)
            service.work()
        return told

    def _do(self, service: Service, step: Step, told: list[Any]) -> None:
        if isinstance(step, Wait):
            service.wait(step.seconds)
        elif isinstance(step, Let):
            service.held.clear()
        elif isinstance(step, Replay):
            letters = service.ask(ops.ListLetters(after=0, limit=1))
            answer = service.ask(ops.ReplayLetter(letters[0].id, step.to))
            # Whoever repeats this without having seen the answer finds that the letter is gone.
            assert isinstance(answer, ops.Delivered | ops.Queued | DeadLetterNotFound)
        elif isinstance(step, ops.CancelWorkflow | ops.TerminateWorkflow):
            # Whoever repeats this may find that it has ended meanwhile.
            assert service.ask(step) in (True, False)
        elif isinstance(step, ops.ResumePause | ops.CancelPause):
            # Whoever repeats this without having seen the answer finds that it is done.
            answer = service.ask(step)
            told.append(
                "" if answer is None or isinstance(answer, PauseAlreadyAnswered | PauseCancelled) else repr(answer)
            )
        elif isinstance(step, ops.ListPauses):
            told.append([(one.number, one.pause_id, one.prompt, one.expects) for one in service.ask(step)])
        elif isinstance(step, ops.DeleteSchedule):
            assert isinstance(service.ask(step), None | ScheduleNotFound)
        elif isinstance(step, ops.CreateSchedule | ops.TriggerSchedule):
            told.append(service.ask(step).key)
        else:
            answer = service.ask(step)
            told.append(answer.key if isinstance(step, ops.StartWorkflow) else answer)


def _start(call: Any, id: str = "w", **more: Any) -> ops.StartWorkflow:
    return call_of(call, id, **more)


def _go(payload: int, to: str | None = "w", **more: Any) -> ops.SendEvent:
    return event_of(go, payload, to=to, event_id=f"go {payload}", **more)


# The run of a minute's tick.
TICK = "s@2031-05-17T12:{:02}:00+00:00"

SCRIPTS = (
    Script("sequence", (_start(flows.sequence()),), 5, 12, 5),
    Script("retries then success", (_start(flows.retried(2)), Wait(15), Wait(30)), 7, 14, 7),
    Script("retries exhausted and caught", (_start(flows.retried(3)), Wait(15), Wait(30)), 7, 14, 7),
    Script("sleep and sleep_until", (_start(flows.sleeper()), Wait(60), Wait(100), Wait(400)), 4, 17, 5),
    Script(
        "targeted event before the wait",
        (
            _start(flows.busy_waiter()),
            _go(1), _go(2, key="k"), _go(3),
            event_of(fresh, 4, event_id="too early"),
            Let(),
            event_of(fresh, 5, event_id="in time"),
        ),
        8, 30, 8,
    ),
    Script("targeted event after the wait", (_start(flows.waiter(3)), _go(1), _go(2), _go(3)), 7, 18, 7),
    Script(
        "untargeted event",
        (
            _go(1, to=None),
            _start(flows.waiter(2), "a"), _start(flows.waiter(), "b"),
            _go(2, to=None), _go(3, to=None), _go(4, to=None),
        ),
        9, 27, 9,
    ),
    Script(
        "broadcast",
        (
            _start(flows.reader(2), "a"), _start(flows.reader(1), "b"),
            event_of(news, 1, event_id="n 1"),
            _start(flows.reader(2), "c"),
            event_of(news, 2, event_id="n 2"),
        ),
        5, 25, 5,
    ),
    Script("gather", (_start(flows.gatherer()), _go(4), Wait(20), Let(), Wait(100)), 8, 19, 8),
    Script("race of event and timer", (_start(flows.racer()), Wait(10), _go(1), Wait(150), Wait(100)), 4, 17, 6),
    Script(
        "nested race in a gather",
        (_start(flows.nested()), _go(1, key="1"), Wait(60), Let(), event_of(stay, 1, event_id="s"), Wait(60)),
        8, 24, 9,
    ),
    Script("within and or_default", (_start(flows.patient()), Wait(70), _go(1), Wait(10), Wait(40), Let()), 4, 15, 5),
    Script("awaited child", (_start(flows.parent()),), 6, 14, 6),
    Script("child that fails and is caught", (_start(flows.guardian()),), 3, 11, 3),
    Script("children three deep", (_start(flows.deep(3)), _go(1, to="w/1/1/1")), 6, 18, 6),
    Script(
        "continue_as with pending events",
        (_start(flows.rounds(3, [])), _go(1), _go(2), _go(3), _go(4), Let()),
        11, 33, 11,
    ),
    Script(
        "cancel with cleanup",
        (_start(flows.tidy()), _go(1), ops.CancelWorkflow("w", "enough"), Wait(30), Let()),
        6, 17, 6,
    ),
    Script(
        "delayed start",
        (_go(1, allow_unstarted=True), _start(flows.waiter(2), delay=60), _go(2), Wait(30), Wait(40)),
        6, 28, 7,
    ),
    Script(
        "delayed start that comes late",
        (_start(flows.patient(), delay=60), _go(1), Wait(1000), _go(2), Let()),
        5, 24, 5,
    ),
    Script(
        "dead letter and replay",
        (
            _start(flows.waiter(1)),
            _start(flows.busy_waiter(), "v"),
            _go(1, to="v"), _go(2, to="v"), event_of(stay, 3, to="v", event_id="stay 3"),
            ops.TerminateWorkflow("v", "enough"),
            Replay(None),
            _start(flows.waiter(2), "x"),
            Replay("x"),
            Replay("x"),
        ),
        12, 34, 15,
    ),
    Script(
        "pauses",
        (
            _start(flows.panel()),
            ops.ListPauses(after=0, limit=9),
            ops.ResumePause("w", "0.1.0", "2"), Wait(60),
            ops.ResumePause("w", "0.0.0", '"no number"'), ops.ResumePause("w", "0.0.0", "1"), Wait(60),
            ops.ResumePause("w", "0.2.0.0.0", "7"), ops.ResumePause("w", "0.1.2", "3"),
            ops.ListPauses(after=0, limit=9), Wait(60),
            ops.CancelPause("w", "2", "enough"),
        ),
        9, 25, 14,
    ),
    Script("undos of a workflow that fails", (_start(flows.undoer()), Wait(15), Wait(30), Wait(30)), 13, 22, 13),
    Script("undos of sagas", (_start(flows.renter()), _go(1), Wait(30), Let(), Wait(30)), 12, 23, 12),
    Script(
        "cancel while a saga is undone",
        (_start(flows.renter()), _go(1), ops.CancelWorkflow("w", "enough"), Wait(30), ops.CancelWorkflow("w", "late")),
        9, 18, 10,
    ),
    Script("spawned children asked for later", (_start(flows.spawner()), _go(1), _go(2, to="w/1")), 8, 23, 8),
    Script(
        "spawned children kept and not",
        (_start(flows.leaver()), _go(1), Wait(30), _go(2, to="w/0"), Let()),
        8, 26, 8,
    ),
    Script(
        "spawned children three deep",
        (_start(flows.dynasty(3)), ops.TerminateWorkflow("w/1/0", "enough"), _go(1, to="w/1/1/1")),
        10, 51, 10,
    ),
    Script("progress in rounds", (_start(flows.teller(3), delay=60), Wait(70), _go(1), Wait(150), _go(2)), 10, 38, 8),
    # Waits end in the middle of a minute: the clock may be some seconds ahead, because a suspect was on trial.
    Script(
        "schedule: ticks and a pause",
        (
            schedule_of(flows.deep(0), "s"),
            Wait(70), ops.PauseSchedule("s"), Wait(60), ops.ResumeSchedule("s"), _go(1, to=TICK.format(1)),
            Wait(60), ops.DeleteSchedule("s"), Wait(60), _go(3, to=TICK.format(3)),
        ),
        12, 47, 12,
    ),
    Script(
        "schedule: triggered",
        (
            schedule_of(flows.deep(0), "s"), ops.TriggerSchedule("s", "t"),
            Wait(70), _go(1, to="t"), Wait(60), _go(2, to=TICK.format(2)),
        ),
        10, 39, 8,
    ),
    Script(
        "schedule: in line, all caught up",
        (
            schedule_of(flows.waiter(), "s", overlap=Overlap.QUEUE, catch_up=CatchUp.ALL),
            Wait(190), _go(1, to=TICK.format(1)), ops.TerminateWorkflow(TICK.format(2)), Wait(60),
            _go(3, to=TICK.format(3)),
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
        7, 41, 7,
    ),
    Script(
        "settled branches",
        (_start(flows.settler()), Wait(15), _go(4, key="4"), Wait(30), Wait(60), Let()),
        11, 22, 11,
    ),
    Script(
        "first success",
        (_start(flows.optimist()), Wait(15), Wait(30), Wait(60), _go(1)),
        9, 21, 9,
    ),
    Script("a few at a time", (_start(flows.spreader()), _go(3, key="3"), _go(1, key="1")), 9, 19, 9),
)  # fmt: skip
