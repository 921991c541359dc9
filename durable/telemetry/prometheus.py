"""Metrics for Prometheus. Needs the extra `durable-engine[prometheus]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric as Family

from durable.engine.operations.facts import Fact
from durable.telemetry.measures import Measures
from durable.telemetry.names import METRICS, SIZES, TIMES, Metric


class PrometheusObserver:
    """Counts what happens, as metrics named `durable_*`.

    It registers itself in `registry`, by default the one that `prometheus_client` exposes. It may observe several
    engines of a process, one after the other or at once.
    """

    def __init__(self, registry: CollectorRegistry | None = REGISTRY) -> None:
        # The metrics are in a registry of their own, so that this object is one collector and can be unregistered.
        self._own = CollectorRegistry()
        self._metrics = {metric.name: _instrument(metric, self._own) for metric in METRICS}
        self._gauges = [(metric, found) for metric in METRICS if isinstance(found := self._metrics[metric.name], Gauge)]
        self._measures = Measures(self)
        if registry is not None:
            registry.register(self)

    def observe(self, fact: Fact, /) -> None:
        """Add what a fact says to the metrics."""
        self._measures.observe(fact)

    def collect(self) -> Iterable[Family]:
        """All metrics, for a registry."""
        for metric, gauge in self._gauges:
            for labels, value in self._measures.gauges(metric).items():
                (gauge.labels(*labels) if labels else gauge).set(value)
        return self._own.collect()

    def bind(self, metric: Metric, labels: dict[str, str]) -> Callable[[float], object]:
        """The function that adds to a counter, or records a value in a histogram, with these labels."""
        instrument = self._metrics[metric.name]
        child = instrument.labels(**labels) if labels else instrument
        return child.inc if isinstance(child, (Counter, Gauge)) else child.observe


def _instrument(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    if metric.kind == "counter":
        return Counter(metric.prometheus, metric.about, metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.prometheus, metric.about, metric.labels, registry=registry)
    buckets = SIZES if metric.unit == "rows" else TIMES
    return Histogram(metric.prometheus, metric.about, metric.labels, registry=registry, buckets=buckets)
