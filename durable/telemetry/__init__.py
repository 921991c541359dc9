"""Seeing what happens: logs, metrics and traces of an engine, and what workflow code can log about itself.

    async with WorkflowEngine("orders.db", observers=[PrometheusObserver(), OpenTelemetryObserver()]) as engine: ...

There is one seam. The engine tells its *observers* facts: frozen values of the closed union `Fact`, such as
`WorkflowEnded` or `AttemptFailed`. A fact that follows from a decision is told after the commit of that decision, in
the order of the decisions, once. Each observer is called in a thread of its own, so it may be slow, block or raise: no
commit waits for it. If it falls too far behind, facts are dropped for it, and the log says so.

Follow one fact. A decision adds it to its effects (`engine.decide.facts`). After the commit the coordinator hands it to
the `Reporter` (`engine.host.reporter`), which puts it into the queue of each observer. The thread of
`PrometheusObserver` takes it out and calls `observe`. `Measures` finds that it is an `AttemptFailed`, and adds one to
the metric `ATTEMPT_FAILURES`.

The log is an observer too, on unless `EngineConfig(log=False)`. It writes failures, parked workflows, suspects, dead
letters and drains to the logger `durable`, with `workflow_id`, `workflow_name`, `position` and `attempt` as extra
fields where they apply (`engine.operations.log_lines`).

A workflow body runs again from its history after a restart or an eviction. A plain logger in it would write the same
line each time, and a counter would count twice. So:

    log = workflow_logger("shop")

    @workflow
    def checkout(order: Order) -> Durable[Receipt]:
        payment = yield from charge(order)
        log.info("paid by %s", payment.card)        # once, however often the body runs again

- `workflow_logger(name)` returns a logger that is silent while the body is replayed.
- `is_replaying()` returns whether a replay is running, for anything else that must not happen twice.
- `current()` says which workflow runs here, and `ContextFilter` puts that into the lines of any logger.

Activities need none of these to be right: they run once per attempt, and ordinary loggers and counters work in them.

| you want to know | file |
|---|---|
| what can be told | `durable.engine.operations.facts` |
| what metrics, spans and attributes are called | `names` |
| what each fact adds to which metric | `measures` |
| how traces continue over restarts | `otel` |
| how Prometheus gets the numbers | `prometheus` |
| which workflow a line of the log belongs to | `context` |

This package imports the engine and nothing imports it. `OpenTelemetryObserver` and `PrometheusObserver` need the extras
`durable-engine[otel]` and `durable-engine[prometheus]`, and are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

from durable.engine.operations.facts import (
    AttemptBegun,
    AttemptFailed,
    AttemptFinished,
    AttemptQueued,
    BodyDied,
    BodySlow,
    BodyStepped,
    BodyStuck,
    CommitFailed,
    Committed,
    Draining,
    EngineOpened,
    EngineStopped,
    EventsBuried,
    EventSent,
    EventTaken,
    Fact,
    FactsDropped,
    LetterSetAside,
    Notice,
    Recovered,
    SuspectsTried,
    TimerFired,
    UndoFailed,
    WorkflowContinued,
    WorkflowEnded,
    WorkflowParked,
    WorkflowReplayed,
    WorkflowResumed,
    WorkflowStarted,
    WorkflowUnparked,
    WorkflowWaiting,
)
from durable.engine.operations.observers import Observer
from durable.runner.logs import WorkflowLogger, is_replaying, workflow_logger
from durable.telemetry.context import Context, ContextFilter, current

if TYPE_CHECKING:
    from durable.telemetry.otel import OpenTelemetryObserver
    from durable.telemetry.prometheus import PrometheusObserver

__all__ = [
    "AttemptBegun",
    "AttemptFailed",
    "AttemptFinished",
    "AttemptQueued",
    "BodyDied",
    "BodySlow",
    "BodyStepped",
    "BodyStuck",
    "CommitFailed",
    "Committed",
    "Context",
    "ContextFilter",
    "Draining",
    "EngineOpened",
    "EngineStopped",
    "EventSent",
    "EventTaken",
    "EventsBuried",
    "Fact",
    "FactsDropped",
    "LetterSetAside",
    "Notice",
    "Observer",
    "OpenTelemetryObserver",
    "PrometheusObserver",
    "Recovered",
    "SuspectsTried",
    "TimerFired",
    "UndoFailed",
    "WorkflowContinued",
    "WorkflowEnded",
    "WorkflowLogger",
    "WorkflowParked",
    "WorkflowReplayed",
    "WorkflowResumed",
    "WorkflowStarted",
    "WorkflowUnparked",
    "WorkflowWaiting",
    "current",
    "is_replaying",
    "workflow_logger",
]


def __getattr__(name: str) -> Any:
    """Import the observers that need an extra when they are first used."""
    if name == "OpenTelemetryObserver":
        from durable.telemetry.otel import OpenTelemetryObserver

        return OpenTelemetryObserver
    if name == "PrometheusObserver":
        from durable.telemetry.prometheus import PrometheusObserver

        return PrometheusObserver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
