"""The names that leave the process: metrics with their units and labels, spans and their attributes.

They are API: dashboards and alerts depend on them, so a name never changes and is never used for something else. No
label holds an id, because every value of a label is a series of its own.
"""

from __future__ import annotations

from typing import Literal

import attrs

Kind = Literal["counter", "gauge", "histogram"]
# In seconds: from a step of a body to an activity that takes an hour.
TIMES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
SIZES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)


@attrs.frozen
class Metric:
    """A metric: its name without prefix, its kind, what it says, its labels and its unit."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    unit: str = ""

    @property
    def prometheus(self) -> str:
        """The name of the family in Prometheus. The samples of counters end with `_total`."""
        return f"durable_{self.name}_{self.unit}" if self.unit else f"durable_{self.name}"

    @property
    def otel(self) -> str:
        """The name in OpenTelemetry, where the unit is a field of its own."""
        return f"workflow.{self.name}"


RUNS = Metric("runs", "gauge", "Unfinished runs by status", ("status",))
STARTS = Metric("starts", "counter", "Runs that were started", ("name",))
ENDS = Metric("ends", "counter", "Runs that have ended, by status at the end", ("name", "outcome"))
PARKS = Metric("parks", "counter", "Runs that were parked", ("name", "reason"))
REPLAYS = Metric("replays", "counter", "Bodies that were rebuilt from their history", ("name",))
STEP_DURATION = Metric("step_duration", "histogram", "How long bodies take for one step", ("name",), "seconds")
SLOW_STEPS = Metric("slow_steps", "counter", "Steps that took longer than slow_body_after", ("name",))
STUCK_BODIES = Metric("stuck_bodies", "counter", "Bodies that did not return for stuck_body_after", ("name",))
BODY_DEATHS = Metric("body_deaths", "counter", "Crashes of the process while a body ran", ("name",))
UNDO_FAILURES = Metric("undo_failures", "counter", "Undos whose last attempt failed", ("name",))
ATTEMPT_DURATION = Metric(
    "attempt_duration", "histogram", "How long attempts of activities ran", ("activity", "outcome"), "seconds"
)
ATTEMPT_FAILURES = Metric(
    "attempt_failures", "counter", "Failed attempts; final if no other attempt follows", ("activity", "final")
)
RUNNING = Metric("activities_running", "gauge", "Attempts that run in this process")
QUEUED = Metric("activities_queued", "gauge", "Attempts that wait for their turn in this process")
EVENTS = Metric("events_sent", "counter", "Events that were accepted", ("event",))
EVENT_LAG = Metric("event_lag", "histogram", "From the sending of an event until a run took it", ("event",), "seconds")
TIMER_LAG = Metric("timer_lag", "histogram", "From the deadline of a timer until it was handled", (), "seconds")
DEAD_LETTERS = Metric("dead_letters", "counter", "Events that became dead letters", ("reason",))
COMMIT_DURATION = Metric("commit_duration", "histogram", "How long commits took", (), "seconds")
COMMIT_SIZE = Metric("commit_size", "histogram", "Changes in one commit", (), "rows")
COMMIT_FAILURES = Metric("commit_failures", "counter", "Commits that failed and were tried again")
COORDINATOR_LAG = Metric(
    "coordinator_lag", "histogram", "How long the oldest call of a batch waited to be decided", (), "seconds"
)
LOADED = Metric("loaded_bodies", "gauge", "Bodies of runs in memory")
SUSPECTS = Metric("suspects", "counter", "Runs put on trial because the process died when they began activities")
LETTERS_SENT = Metric("letters_sent", "counter", "Letters written to other shards")
LETTERS_HANDLED = Metric("letters_handled", "counter", "Letters from other shards that were handled")
LETTERS_SET_ASIDE = Metric("letters_set_aside", "counter", "Letters from other shards that cannot be read")
SHARDS = Metric("owned_shards", "gauge", "Shards that this process owns")
STOPS = Metric("engine_stops", "counter", "Engines that stopped: in order, fenced, storage or bug", ("cause",))
DROPPED = Metric("facts_dropped", "counter", "Facts that an observer was too slow for", ("observer",))

METRICS = (
    RUNS, STARTS, ENDS, PARKS, REPLAYS, STEP_DURATION, SLOW_STEPS, STUCK_BODIES, BODY_DEATHS, UNDO_FAILURES,
    ATTEMPT_DURATION, ATTEMPT_FAILURES, RUNNING, QUEUED, EVENTS, EVENT_LAG, TIMER_LAG, DEAD_LETTERS, COMMIT_DURATION,
    COMMIT_SIZE, COMMIT_FAILURES, COORDINATOR_LAG, LOADED, SUSPECTS, LETTERS_SENT, LETTERS_HANDLED, LETTERS_SET_ASIDE,
    SHARDS, STOPS, DROPPED,
)  # fmt: skip

# Spans, each followed by the name of a workflow, an event or an activity.
SPAN_START = "workflow.start"
SPAN_SEND = "workflow.send_event"
SPAN_STEP = "workflow.step"
SPAN_ATTEMPT = "workflow.attempt"
# Attributes of spans. There is no stable convention for workflows yet.
WORKFLOW_ID = "workflow.id"
WORKFLOW_NAME = "workflow.name"
ROUND = "workflow.round"
STEP_NAME = "workflow.step.name"
STEP_KIND = "workflow.step.kind"
STEP_POSITION = "workflow.step.position"
STEP_ATTEMPT = "workflow.step.attempt"
OUTCOME = "workflow.step.outcome"
EVENT_NAME = "workflow.event.name"
ERROR_TYPE = "error.type"
# What a link of a span leads to.
LINK = "workflow.link"
LINK_PREVIOUS, LINK_EVENT, LINK_ATTEMPT, LINK_PARENT = "previous step", "event", "attempt", "parent"
