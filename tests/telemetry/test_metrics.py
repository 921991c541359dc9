"""Metrics: what is exposed is well formed, adds up to what happened, and never has an id as a label."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from durable import WorkflowEngine, WorkflowFailed, WorkflowStatus
from durable.errors import StoreFenced
from durable.telemetry import (
    BodyDied,
    BodySlow,
    BodyStuck,
    CommitFailed,
    Committed,
    EngineOpened,
    EngineStopped,
    EventsBuried,
    EventSent,
    Fact,
    FactsDropped,
    LetterSetAside,
    Notice,
    OpenTelemetryObserver,
    PrometheusObserver,
    SuspectsTried,
    TimerFired,
    UndoFailed,
    WorkflowParked,
)
from durable.telemetry.measures import OTHER, VALUES_MAX
from durable.telemetry.names import METRICS
from tests.scenarios.kit import waiting
from tests.telemetry.kit import SOON, approval, declined, order, parent

WHO: dict[str, Any] = {"at_us": 1, "workflow_id": "w", "workflow_name": "flow"}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def exposed(registry: CollectorRegistry) -> Samples:
    """What Prometheus would read: the value of each sample by name and labels."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, sample: str, /, **labels: str) -> float | None:
    """One sample."""
    return samples.get((sample, tuple(sorted(labels.items()))))


async def load(engine: WorkflowEngine, count: int) -> None:
    """Many orders, some that fail, some with children; the last ones still wait."""
    for number in range(count):
        await engine.start(order(number), id=f"secret-id-{number}")
        await engine.start(parent(), id=f"secret-id-p{number}")
    async with anyio.create_task_group() as tasks:
        for number in range(count // 2):
            await waiting(engine, f"secret-id-{number}", "event")
            tasks.start_soon(engine.send_event, approval, "ann")
    for number in range(count // 2):
        await engine.handle(f"secret-id-{number}").result(timeout=SOON)
        await engine.handle(f"secret-id-p{number}").result(timeout=SOON)
    with pytest.raises(WorkflowFailed):
        await (await engine.start(declined())).result(timeout=SOON)
    for number in range(count // 2, count):
        await waiting(engine, f"secret-id-{number}", "event")
        await engine.handle(f"secret-id-p{number}").result(timeout=SOON)


@pytest.mark.anyio
async def test_metrics_of_a_run_under_load_are_well_formed_and_add_up() -> None:
    """What is scraped during and after a load is read by Prometheus' own parser, and counts what was done."""
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    async with WorkflowEngine("memory://", observers=[observer]) as engine:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load, engine, 40)
            for _ in range(20):
                assert exposed(registry)
                await anyio.lowlevel.checkpoint()
        with anyio.fail_after(SOON):
            # The observer is told a moment later than the caller.
            while value(exposed(registry), "durable_runs", status="suspended") != 20:
                await anyio.lowlevel.checkpoint()
        samples = exposed(registry)
        assert value(samples, "durable_runs", status="running") == 0
        assert value(samples, "durable_owned_shards") == 1
        assert value(samples, "durable_loaded_bodies") == 20
    samples = exposed(registry)
    assert value(samples, "durable_starts_total", name="telemetry.order") == 40
    assert value(samples, "durable_starts_total", name="telemetry.child") == 80
    assert value(samples, "durable_ends_total", name="telemetry.order", outcome="succeeded") == 20
    assert value(samples, "durable_ends_total", name="telemetry.declined", outcome="failed") == 1
    assert value(samples, "durable_attempt_failures_total", activity="telemetry.decline", final="true") == 1
    assert value(samples, "durable_attempt_duration_seconds_count", activity="telemetry.charge", outcome="ok") == 120
    assert value(samples, "durable_event_lag_seconds_count", event="telemetry.approval") == 20
    assert value(samples, "durable_activities_running") == 0
    assert value(samples, "durable_owned_shards") == 0
    assert value(samples, "durable_engine_stops_total", cause="order") == 1
    assert not [key for key in samples if "secret-id" in str(key)]


# Facts that are rare, with the sample that each changes.
RARE: list[tuple[Fact, str, dict[str, str], float]] = [
    (WorkflowParked(**WHO, reason="diverged", detail="d"), "parks_total", {"name": "flow", "reason": "diverged"}, 1),
    (BodySlow(**WHO, seconds=1), "slow_steps_total", {"name": "flow"}, 1),
    (BodyStuck(**WHO, seconds=1, stack=""), "stuck_bodies_total", {"name": "flow"}, 1),
    (BodyDied(**WHO, crashes=1, limit=3), "body_deaths_total", {"name": "flow"}, 1),
    (UndoFailed(**WHO, position="0", text=""), "undo_failures_total", {"name": "flow"}, 1),
    (TimerFired(**WHO, lag_us=2_000_000), "timer_lag_seconds_sum", {}, 2),
    (EventsBuried(at_us=1, reason="unreadable", events=(("a", 2), ("b", 1))), "dead_letters_total",
     {"reason": "unreadable"}, 3),
    (CommitFailed(at_us=1, error="", seconds_left=1), "commit_failures_total", {}, 1),
    (SuspectsTried(at_us=1, workflow_ids=("a", "b"), first=1), "suspects_total", {}, 2),
    (LetterSetAside(at_us=1, letter="1.0", sender=1, problem=""), "letters_set_aside_total", {}, 1),
    (FactsDropped(at_us=1, observer="Slow", count=7), "facts_dropped_total", {"observer": "Slow"}, 7),
    (EngineStopped(at_us=1, shard=0, error=StoreFenced("s")), "engine_stops_total", {"cause": "fenced"}, 1),
    (EngineStopped(at_us=1, shard=0, error=ValueError(), is_bug=True), "engine_stops_total", {"cause": "bug"}, 1),
    (EngineStopped(at_us=1, shard=0, error=OSError()), "engine_stops_total", {"cause": "storage"}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("fact", "name", "labels", "expected"), RARE, ids=lambda part: str(part)[:20])
def test_rare_fact_is_counted(fact: Fact, name: str, labels: dict[str, str], expected: float) -> None:
    """Each of these facts changes its sample."""
    registry = CollectorRegistry()
    PrometheusObserver(registry).observe(fact)
    assert value(exposed(registry), f"durable_{name}", **labels) == expected


def test_shards_are_added_up() -> None:
    """The gauges of a process with several shards are sums, and a shard that it loses no longer counts."""
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    runs = {WorkflowStatus.SUSPENDED: 5}
    moves = {(None, WorkflowStatus.RUNNING): 2, (WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING): 1}
    for shard in (1, 2):
        observer.observe(EngineOpened(at_us=1, shard=shard, runs=runs))
        observer.observe(
            Committed(at_us=1, shard=shard, operations=1, rows=3, took_us=1, lag_us=0, loaded=4, moves=moves,
                      letters_sent=2, letters_handled=1)
        )  # fmt: skip
    expected = {"suspended": 8.0, "running": 6.0}
    samples = exposed(registry)
    assert {status: value(samples, "durable_runs", status=status) for status in expected} == expected
    assert value(samples, "durable_letters_sent_total") == 4
    observer.observe(EngineStopped(at_us=2, shard=1))
    samples = exposed(registry)
    assert {status: value(samples, "durable_runs", status=status) for status in expected} == {
        "suspended": 4.0,
        "running": 3.0,
    }
    assert (value(samples, "durable_owned_shards"), value(samples, "durable_loaded_bodies")) == (1, 4)


def test_generated_names_do_not_make_endless_series() -> None:
    """After some hundred values of a label, all others share one series."""
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    for number in range(VALUES_MAX + 10):
        observer.observe(EventSent(at_us=1, event=f"paid-{number}"))
    samples = exposed(registry)
    assert value(samples, "durable_events_sent_total", event=OTHER) == 10
    assert value(samples, "durable_events_sent_total", event="paid-0") == 1


def test_fact_without_a_metric_is_ignored() -> None:
    """A notice changes no sample."""
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    before = exposed(registry)
    observer.observe(Notice(at_us=1, level=logging.INFO, text=""))
    assert {key: value for key, value in exposed(registry).items() if "_created" not in key[0]} == {
        key: value for key, value in before.items() if "_created" not in key[0]
    }


def test_names_of_metrics_are_pinned() -> None:
    """They are API: dashboards and alerts contain them."""
    assert sorted(f"{metric.kind} {metric.prometheus} {' '.join(metric.labels)}".strip() for metric in METRICS) == [
        "counter durable_attempt_failures activity final",
        "counter durable_body_deaths name",
        "counter durable_commit_failures",
        "counter durable_dead_letters reason",
        "counter durable_ends name outcome",
        "counter durable_engine_stops cause",
        "counter durable_events_sent event",
        "counter durable_facts_dropped observer",
        "counter durable_letters_handled",
        "counter durable_letters_sent",
        "counter durable_letters_set_aside",
        "counter durable_parks name reason",
        "counter durable_replays name",
        "counter durable_slow_steps name",
        "counter durable_starts name",
        "counter durable_stuck_bodies name",
        "counter durable_suspects",
        "counter durable_undo_failures name",
        "gauge durable_activities_queued",
        "gauge durable_activities_running",
        "gauge durable_loaded_bodies",
        "gauge durable_owned_shards",
        "gauge durable_runs status",
        "histogram durable_attempt_duration_seconds activity outcome",
        "histogram durable_commit_duration_seconds",
        "histogram durable_commit_size_rows",
        "histogram durable_coordinator_lag_seconds",
        "histogram durable_event_lag_seconds event",
        "histogram durable_step_duration_seconds name",
        "histogram durable_timer_lag_seconds",
    ]


def points(reader: InMemoryMetricReader) -> dict[str, Sequence[Any]]:
    """The data points of each metric."""
    data = reader.get_metrics_data()
    assert data is not None
    scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
    return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.mark.anyio
async def test_opentelemetry_gets_the_same_numbers() -> None:
    """The same facts reach the instruments of OpenTelemetry, with their labels as attributes."""
    reader = InMemoryMetricReader()
    observer = OpenTelemetryObserver(TracerProvider(), MeterProvider([reader]))
    async with WorkflowEngine("memory://", observers=[observer]) as engine:
        await (await engine.start(parent())).result(timeout=SOON)
    found = points(reader)
    starts = {point.attributes["name"]: point.value for point in found["workflow.starts"]}
    assert starts == {"telemetry.parent": 1, "telemetry.child": 2}
    (duration,) = found["workflow.attempt_duration"]
    assert (duration.count, dict(duration.attributes)) == (2, {"activity": "telemetry.charge", "outcome": "ok"})
    assert [point.value for point in found["workflow.owned_shards"]] == [0]


def test_observer_can_be_taken_out_of_its_registry() -> None:
    """It is one collector, so a second one can take its place."""
    registry = CollectorRegistry()
    first = PrometheusObserver(registry)
    registry.unregister(first)
    PrometheusObserver(registry)
    assert list(PrometheusObserver(None).collect())
