"""From facts to metrics: what each fact adds to which metric. OpenTelemetry and Prometheus are fed from here alike.

Gauges are kept per shard, so that they are right again when an engine stops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from durable.engine.operations import facts
from durable.engine.operations.facts import Fact
from durable.errors import StoreFenced
from durable.model.statuses import WorkflowStatus
from durable.telemetry import names
from durable.telemetry.names import Metric

# How many values of one label are told apart. Names of events may be generated, and each would be a series of its own.
VALUES_MAX = 500
OTHER = "(other)"
_LIVE = (WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED)


class Meter(Protocol):
    """Where the numbers of counters and histograms go. Gauges are read when somebody asks (`Measures.gauges`)."""

    def bind(self, metric: Metric, labels: dict[str, str]) -> Callable[[float], object]:
        """The function that adds to a counter, or records a value in a histogram, with these labels."""
        ...


class Measures:
    """Feeds a meter with facts. One thread calls `observe`; any may call `gauges`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        # The functions of the meter, by metric and values of its labels; the values of each label.
        self._bound: dict[tuple[str, ...], Callable[[float], object]] = {}
        self._values: dict[str, set[str]] = {}
        # By shard.
        self._runs: dict[int, Counter[WorkflowStatus]] = {}
        self._loaded: dict[int, int] = {}
        self._running = self._queued = 0

    def observe(self, fact: Fact) -> None:
        """Add what a fact says to the metrics."""
        add = _ADD.get(type(fact))
        if add is not None:
            add(self, fact)

    def gauges(self, metric: Metric) -> dict[tuple[str, ...], float]:
        """The values of a gauge now, by the values of its labels."""
        if metric is names.RUNS:
            shards = list(self._runs.values())
            return {(status.value,): sum(runs[status] for runs in shards) for status in _LIVE}
        values: dict[str, float] = {
            names.LOADED.name: sum(list(self._loaded.values())),
            names.SHARDS.name: len(self._runs),
            names.RUNNING.name: self._running,
            names.QUEUED.name: self._queued,
        }
        return {(): values[metric.name]}

    # --- facts that say several things ----------------------------------------------------------------------------

    def committed(self, fact: facts.Committed) -> None:
        """A batch is stored."""
        self.record(names.COMMIT_DURATION, fact.took_us)
        self.add(names.COMMIT_SIZE, count=fact.rows)
        self.record(names.COORDINATOR_LAG, fact.lag_us)
        if fact.letters_sent:
            self.add(names.LETTERS_SENT, count=fact.letters_sent)
        if fact.letters_handled:
            self.add(names.LETTERS_HANDLED, count=fact.letters_handled)
        self._loaded[fact.shard] = fact.loaded
        runs = self._runs.setdefault(fact.shard, Counter())
        for (before, after), count in fact.moves.items():
            if before is not None:
                runs[before] -= count
            runs[after] += count

    def opened(self, fact: facts.EngineOpened) -> None:
        """A shard was taken."""
        self._runs[fact.shard] = Counter(fact.runs)
        self._loaded[fact.shard] = 0

    def stopped(self, fact: facts.EngineStopped) -> None:
        """A shard was left."""
        failed = "fenced" if isinstance(fact.error, StoreFenced) else "bug" if fact.is_bug else "storage"
        self.add(names.STOPS, "order" if fact.error is None else failed)
        self._runs.pop(fact.shard, None)
        self._loaded.pop(fact.shard, None)
        if not self._runs:
            # What was queued is gone, and what still runs is not awaited.
            self._running = self._queued = 0

    def queued(self, fact: facts.AttemptQueued) -> None:
        """An attempt waits for its turn."""
        self._queued += 1

    def begun(self, fact: facts.AttemptBegun) -> None:
        """An attempt runs."""
        self._queued = max(0, self._queued - 1)
        self._running += 1

    def finished(self, fact: facts.AttemptFinished) -> None:
        """An attempt has ended, perhaps before it began."""
        if fact.has_begun:
            self._running = max(0, self._running - 1)
            self.record(names.ATTEMPT_DURATION, fact.took_us, fact.activity, fact.outcome)
        else:
            self._queued = max(0, self._queued - 1)

    # --- to the meter ---------------------------------------------------------------------------------------------

    def record(self, metric: Metric, microseconds: int, *labels: str) -> None:
        """Record a duration, with the values of the metric's labels."""
        self.add(metric, *labels, count=microseconds / 1_000_000)

    def add(self, metric: Metric, *labels: str, count: float = 1) -> None:
        """Add to a counter, or record a value, with the values of the metric's labels."""
        bound = self._bound.get((metric.name, *labels))
        if bound is None:
            kept = [self._kept(label, value) for label, value in zip(metric.labels, labels, strict=True)]
            bound = self._bound.get((metric.name, *kept))
            if bound is None:
                bound = self._meter.bind(metric, dict(zip(metric.labels, kept, strict=True)))
                self._bound[metric.name, *kept] = bound
        bound(count)

    def _kept(self, label: str, value: str) -> str:
        """The value, or `OTHER` if the label has too many values already."""
        values = self._values.setdefault(label, set())
        if value not in values:
            if len(values) >= VALUES_MAX:
                return OTHER
            values.add(value)
        return value


def _final(fact: facts.AttemptFailed) -> str:
    return "true" if fact.delay_us is None else "false"


# What to do for each kind of fact. The others say nothing that these do not count.
_ADD: dict[type[Any], Callable[[Measures, Any], None]] = {
    facts.Committed: Measures.committed,
    facts.EngineOpened: Measures.opened,
    facts.EngineStopped: Measures.stopped,
    facts.AttemptQueued: Measures.queued,
    facts.AttemptBegun: Measures.begun,
    facts.AttemptFinished: Measures.finished,
    facts.AttemptFailed: lambda to, fact: to.add(names.ATTEMPT_FAILURES, fact.activity, _final(fact)),
    facts.WorkflowStarted: lambda to, fact: to.add(names.STARTS, fact.workflow_name),
    facts.WorkflowEnded: lambda to, fact: to.add(names.ENDS, fact.workflow_name, fact.status.value),
    facts.WorkflowParked: lambda to, fact: to.add(names.PARKS, fact.workflow_name, fact.reason),
    facts.WorkflowReplayed: lambda to, fact: to.add(names.REPLAYS, fact.workflow_name),
    facts.BodyStepped: lambda to, fact: to.record(names.STEP_DURATION, fact.took_us, fact.workflow_name),
    facts.BodySlow: lambda to, fact: to.add(names.SLOW_STEPS, fact.workflow_name),
    facts.BodyStuck: lambda to, fact: to.add(names.STUCK_BODIES, fact.workflow_name),
    facts.BodyDied: lambda to, fact: to.add(names.BODY_DEATHS, fact.workflow_name),
    facts.UndoFailed: lambda to, fact: to.add(names.UNDO_FAILURES, fact.workflow_name),
    facts.EventSent: lambda to, fact: to.add(names.EVENTS, fact.event),
    facts.EventTaken: lambda to, fact: to.record(names.EVENT_LAG, fact.lag_us, fact.event),
    facts.TimerFired: lambda to, fact: to.record(names.TIMER_LAG, fact.lag_us),
    facts.EventsBuried: lambda to, fact: to.add(
        names.DEAD_LETTERS, fact.reason, count=sum(count for _, count in fact.events)
    ),
    facts.CommitFailed: lambda to, fact: to.add(names.COMMIT_FAILURES),
    facts.SuspectsTried: lambda to, fact: to.add(names.SUSPECTS, count=len(fact.workflow_ids)),
    facts.LetterSetAside: lambda to, fact: to.add(names.LETTERS_SET_ASIDE),
    facts.FactsDropped: lambda to, fact: to.add(names.DROPPED, fact.observer, count=fact.count),
}
