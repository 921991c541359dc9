"""Traces and metrics for OpenTelemetry. Needs the extra `durable-engine[otel]`, which is the API alone.

A run may take months, so no span stays open for that long. Instead there are short ones:

- `workflow.start` and `workflow.send_event`: the call of a service, a child of the caller's span. It is exported once
  the call is stored. Its context is what the engine stores with the run or the event.
- `workflow.step`: a body got a result and ran until it waited again. Never for a replay.
- `workflow.attempt`: one attempt of an activity. It is the current span while the activity runs, in whatever process
  and however much later, so the spans of libraries that the activity calls are its children.

Steps and attempts are children of the `workflow.start` of their run, also after a restart, because its context is
stored. A child workflow continues the trace of its parent. Links say what followed from what: a step links to the step
before it, also across `continue_as`, to the attempt whose result it got, and to the sender of the event that it got;
the first step of a child links to the last one of its parent.

A run that nobody traced, such as that of a schedule, gets a trace of its own, with an id made from its own.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from durable.engine.operations import facts
from durable.engine.operations.facts import AttemptBegun, Fact
from durable.engine.operations.observers import split_trace
from durable.model.version import VERSION
from durable.telemetry import names
from durable.telemetry.measures import Measures
from durable.telemetry.names import METRICS, Metric

K = TypeVar("K")
T = TypeVar("T")
# How many spans and contexts of each kind are remembered. A run that was forgotten only lacks a link.
_REMEMBERED = 10_000
# What the engine stores is at most this long. A tracestate that makes it longer is left out.
_LENGTH_MAX = 255
_W3C = TraceContextTextMapPropagator()


class OpenTelemetryObserver:
    """Traces workflows and counts what happens, with the global providers or with those that are passed."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("durable", VERSION, tracer_provider)
        meter = _Meter(metrics.get_meter("durable", VERSION, meter_provider))
        self._measures = Measures(meter)
        meter.watch(self._measures)
        # Spans of calls that are not stored yet, by the context that the engine stores with them.
        self._calls: _Recent[str, Span] = _Recent()
        self._attempts: _Recent[tuple[str, int, str, int], Span] = _Recent()
        # By run: the last step; what the next step got, an event or the result of an attempt.
        self._steps: _Recent[str, SpanContext] = _Recent()
        self._parents: _Recent[str, SpanContext] = _Recent()
        self._causes: _Recent[tuple[str, str], Link] = _Recent()

    # --- where callers and activities run ---------------------------------------------------------------------------

    def capture(self, action: str, name: str) -> str | None:
        """Begin the span of a call, and return its context. The span is exported once the call is stored."""
        title = names.SPAN_START if action == "start" else names.SPAN_SEND
        span = self._tracer.start_span(f"{title} {name}", kind=SpanKind.PRODUCER)
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, trace.set_span_in_context(span))
        parent, state = carrier.get("traceparent"), carrier.get("tracestate")
        if parent is None:
            return None
        text = f"{parent} {state}" if state and len(parent) + 1 + len(state) <= _LENGTH_MAX else parent
        self._calls.put(text, span)
        return text

    @contextmanager
    def enter(self, attempt: AttemptBegun, /) -> Iterator[None]:
        """Make a new span the current one while an attempt runs. It ends when the engine tells the outcome."""
        parent = _context(attempt.trace, attempt.workflow_id, attempt.started_at_us)
        attributes = {
            **_workflow(attempt),
            names.STEP_NAME: attempt.activity,
            names.STEP_POSITION: attempt.position,
            names.STEP_ATTEMPT: attempt.attempt,
        }
        title = f"{names.SPAN_ATTEMPT} {attempt.activity}"
        span = self._tracer.start_span(title, parent, attributes=attributes, start_time=attempt.at_us * 1000)
        self._attempts.put((attempt.workflow_id, attempt.round, attempt.position, attempt.attempt), span)
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            otel_context.detach(token)

    # --- in the thread of this observer -----------------------------------------------------------------------------

    def observe(self, fact: Fact, /) -> None:
        """End or write the span of a fact, and count it."""
        match fact:
            case facts.WorkflowStarted():
                self._started(fact)
            case facts.EventSent():
                span = None if fact.trace is None else self._calls.pop(fact.trace)
                if span is not None:
                    span.set_attribute(names.EVENT_NAME, fact.event)
                    span.end()
            case facts.EventTaken():
                if fact.trace is not None and (sender := _remote(fact.trace)) is not None:
                    self._causes.put((fact.workflow_id, fact.position), _link(sender, names.LINK_EVENT))
            case facts.AttemptFinished():
                self._attempt_finished(fact)
            case facts.BodyStepped():
                self._stepped(fact)
            case facts.WorkflowEnded():
                self._steps.pop(fact.workflow_id)
            case _:
                # Only counted.
                pass
        self._measures.observe(fact)

    def _started(self, fact: facts.WorkflowStarted) -> None:
        if fact.parent_id is not None:
            # Its trace is that of its parent, whose call was stored before.
            if (step := self._steps.get(fact.parent_id)) is not None:
                self._parents.put(fact.workflow_id, step)
            return
        span = None if fact.trace is None else self._calls.pop(fact.trace)
        if span is not None:
            span.set_attributes(_workflow(fact))
            span.end()

    def _stepped(self, fact: facts.BodyStepped) -> None:
        links = []
        if (previous := self._steps.get(fact.workflow_id)) is not None:
            links.append(_link(previous, names.LINK_PREVIOUS))
        if (parent := self._parents.pop(fact.workflow_id)) is not None:
            links.append(_link(parent, names.LINK_PARENT))
        if (cause := self._causes.pop((fact.workflow_id, fact.position))) is not None:
            links.append(cause)
        attributes = {
            **_workflow(fact),
            names.ROUND: fact.round,
            names.STEP_KIND: fact.kind,
            names.STEP_NAME: fact.name,
            names.STEP_POSITION: fact.position,
        }
        span = self._tracer.start_span(
            f"{names.SPAN_STEP} {fact.workflow_name}",
            _context(fact.trace, fact.workflow_id, fact.started_at_us),
            attributes=attributes,
            links=links,
            start_time=fact.at_us * 1000,
        )
        self._steps.put(fact.workflow_id, span.get_span_context())
        span.end((fact.at_us + fact.took_us) * 1000)

    def _attempt_finished(self, fact: facts.AttemptFinished) -> None:
        span = self._attempts.pop((fact.workflow_id, fact.round, fact.position, fact.attempt))
        if span is None:
            return
        span.set_attribute(names.OUTCOME, fact.outcome)
        if fact.error_type is not None:
            span.set_attribute(names.ERROR_TYPE, fact.error_type)
            span.set_status(Status(StatusCode.ERROR, fact.error_type))
        if fact.outcome != "stopped":
            link = _link(span.get_span_context(), names.LINK_ATTEMPT)
            self._causes.put((fact.workflow_id, fact.position), link)
        span.end(fact.at_us * 1000)


class _Recent(Generic[K, T]):
    """The values that were put last, by key. Used by callers, activities and the thread of the observer."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, T] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, key: K, value: T) -> None:
        """Remember a value, and forget the oldest if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > _REMEMBERED:
                self._values.popitem(last=False)

    def get(self, key: K) -> T | None:
        """The value, if it is remembered."""
        return self._values.get(key)

    def pop(self, key: K) -> T | None:
        """The value, if it is remembered, which is forgotten now."""
        with self._lock:
            return self._values.pop(key, None)


class _Meter:
    """The instruments of a meter."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._updates: dict[str, Callable[[float, dict[str, str]], None]] = {}
        self._gauges = [metric for metric in METRICS if metric.kind == "gauge"]
        for metric in METRICS:
            unit = {"seconds": "s", "rows": "{row}"}.get(metric.unit, "1")
            if metric.kind == "counter":
                self._updates[metric.name] = meter.create_counter(metric.otel, unit, metric.about).add
            elif metric.kind == "histogram":
                self._updates[metric.name] = meter.create_histogram(metric.otel, unit, metric.about).record
        self._meter = meter

    def bind(self, metric: Metric, labels: dict[str, str]) -> Callable[[float], object]:
        """The function that adds to a counter, or records a value in a histogram, with these labels."""
        update = self._updates[metric.name]
        return lambda value: update(value, labels)

    def watch(self, measures: Measures) -> None:
        """Let the meter ask for the gauges when it exports."""
        for metric in self._gauges:
            self._meter.create_observable_gauge(metric.otel, [partial(_gauge, measures, metric)], "1", metric.about)


def _gauge(measures: Measures, metric: Metric, options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
    for labels, value in measures.gauges(metric).items():
        yield metrics.Observation(value, dict(zip(metric.labels, labels, strict=True)))


def _workflow(fact: AttemptBegun | facts.BodyStepped | facts.WorkflowStarted) -> dict[str, str | int]:
    return {names.WORKFLOW_ID: fact.workflow_id, names.WORKFLOW_NAME: fact.workflow_name}


def _link(to: SpanContext, why: str) -> Link:
    return Link(to, {names.LINK: why})


def _remote(stored: str | None) -> SpanContext | None:
    """The span context in a stored text, if it is valid."""
    parent, state = split_trace(stored)
    carrier = {"traceparent": parent or "", "tracestate": state or ""}
    found = trace.get_current_span(_W3C.extract(carrier, Context())).get_span_context()
    return found if found.is_valid else None


def _context(stored: str | None, workflow_id: str, started_at: int) -> Context:
    """The context of a run: what is stored with it, or one made from its id."""
    parent = _remote(stored)
    if parent is None:
        made = hashlib.sha256(f"{started_at} {workflow_id}".encode()).digest()
        trace_id, span_id = int.from_bytes(made[:16]), int.from_bytes(made[16:24])
        parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
