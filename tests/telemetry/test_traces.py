"""Traces of OpenTelemetry: one connected picture, from the caller to the last activity, across restarts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from durable import Durable, SyncWorkflowEngine, WorkflowEngine, activity, activity_info, workflow
from durable.telemetry import AttemptBegun, AttemptFinished, Fact, OpenTelemetryObserver, names
from tests.scenarios.kit import waiting
from tests.telemetry.kit import SOON, Notes, approval, charge, declined, order, parent

pytestmark = pytest.mark.anyio


class Traced:
    """A service with a tracer of its own, and the spans that it has exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("service")

    @property
    def observer(self) -> OpenTelemetryObserver:
        """A new observer, as each process makes one."""
        return OpenTelemetryObserver(self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans that have ended."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans with this name."""
        return [span for span in self.spans if span.name == name]


def ids(span: Any) -> tuple[int, int]:
    """The trace id and the span id of a span or a context."""
    context = span.get_span_context() if hasattr(span, "get_span_context") else span
    return context.trace_id, context.span_id


def reachable(spans: list[ReadableSpan], root: ReadableSpan) -> set[tuple[int, int]]:
    """What can be reached from a span over parents and links, in either direction."""
    edges: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for span in spans:
        others = [ids(link.context) for link in span.links] + ([] if span.parent is None else [ids(span.parent)])
        for other in others:
            edges.setdefault(ids(span), set()).add(other)
            edges.setdefault(other, set()).add(ids(span))
    seen, todo = set(), [ids(root)]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            todo += edges.get(at, ())
    return seen


@activity(name="traces.call")
async def call_library() -> int:
    """Calls a library that makes a span of its own."""
    with trace.get_tracer("library", tracer_provider=LIBRARY[0]).start_as_current_span("library"):
        return 1


@activity(name="traces.thread")
def call_library_in_thread() -> int:
    """The same in a thread."""
    with trace.get_tracer("library", tracer_provider=LIBRARY[0]).start_as_current_span("library"):
        return 2


@workflow(name="traces.order")
def traced_order() -> Durable[list[Any]]:
    """Calls, waits, calls."""
    first = yield from call_library()
    who = yield from approval.wait()
    return [first, who, (yield from call_library_in_thread())]


LIBRARY: list[Any] = [None]


async def test_one_order_is_one_connected_picture(tmp_path: Path) -> None:
    """From the caller's span over a restart and another caller's event to the last activity: all spans hang together,
    every parent is exported, and nothing stays open."""
    traced = Traced()
    LIBRARY[0] = traced.provider
    async with WorkflowEngine(tmp_path / "store.db", observers=[traced.observer]) as engine:
        with traced.tracer.start_as_current_span("POST /orders") as caller:
            await engine.start(traced_order(), id="o")
        await waiting(engine, "o", "event")
    async with WorkflowEngine(tmp_path / "store.db", observers=[traced.observer]) as engine:
        with traced.tracer.start_as_current_span("POST /approvals"):
            await engine.send_event(approval, "ann", to="o")
        assert await engine.handle("o").result(timeout=SOON) == [1, "ann", 2]
    spans = traced.spans
    assert sorted(span.name for span in spans) == sorted([
        "POST /orders", "POST /approvals", "workflow.start traces.order", "workflow.send_event telemetry.approval",
        *["workflow.step traces.order"] * 4, "workflow.attempt traces.call", "workflow.attempt traces.thread",
        "library", "library",
    ])  # fmt: skip
    known = {ids(span) for span in spans}
    assert all(span.parent is None or ids(span.parent) in known for span in spans)
    (root,) = traced.named("POST /orders")
    assert ids(root) == ids(caller)
    assert reachable(spans, root) == known
    on_its_way = [span for span in spans if ids(span)[0] == ids(root)[0]]
    # Only the caller that sent the event has another trace, and it is linked.
    assert {span.name for span in spans} - {span.name for span in on_its_way} == {
        "POST /approvals", "workflow.send_event telemetry.approval",
    }  # fmt: skip


async def test_activity_runs_in_the_context_of_its_attempt(tmp_path: Path) -> None:
    """What a library does in an activity, on the loop or in a thread, is a child of the attempt's span."""
    traced = Traced()
    LIBRARY[0] = traced.provider
    async with WorkflowEngine("memory://", observers=[traced.observer]) as engine:
        await engine.start(traced_order(), id="o")
        await engine.send_event(approval, "ann", to="o")
        await engine.handle("o").result(timeout=SOON)
    attempts = [*traced.named("workflow.attempt traces.call"), *traced.named("workflow.attempt traces.thread")]
    parents = [span.parent for span in traced.named("library")]
    assert [ids(parent) for parent in parents if parent is not None] == [ids(attempt) for attempt in attempts]
    assert trace.get_current_span().get_span_context().is_valid is False


async def test_steps_link_to_what_they_follow_from() -> None:
    """A step links to the one before it, to the attempt whose result it got, and to the sender of its event."""
    traced = Traced()
    async with WorkflowEngine("memory://", observers=[traced.observer]) as engine:
        await engine.start(order(1), id="o")
        await waiting(engine, "o", "event")
        await engine.send_event(approval, "ann", to="o")
        await engine.handle("o").result(timeout=SOON)
    steps = traced.named("workflow.step telemetry.order")
    links = [{str(link.attributes[names.LINK]): ids(link.context) for link in step.links} for step in steps]  # type: ignore[index]
    assert [sorted(link) for link in links] == [
        [], ["attempt", "previous step"], ["event", "previous step"], ["attempt", "previous step"],
    ]  # fmt: skip
    assert [link["previous step"] for link in links[1:]] == [ids(step) for step in steps[:-1]]
    assert links[1]["attempt"] == ids(traced.named("workflow.attempt telemetry.charge")[0])
    assert links[2]["event"] == ids(traced.named("workflow.send_event telemetry.approval")[0])


async def test_children_and_rounds_stay_in_the_trace() -> None:
    """A child continues the trace of its parent and links to it; so does the next round of a `continue_as`."""

    @workflow(name="traces.rounds")
    def rounds(left: int) -> Durable[int]:
        yield from charge(left)
        if left:
            raise rounds.continue_as(left - 1)
        return left

    traced = Traced()
    async with WorkflowEngine("memory://", observers=[traced.observer]) as engine:
        with traced.tracer.start_as_current_span("caller") as caller:
            handles = [await engine.start(parent()), await engine.start(rounds(2))]
        for handle in handles:
            await handle.result(timeout=SOON)
    assert {ids(span)[0] for span in traced.spans} == {ids(caller)[0]}
    child = traced.named("workflow.step telemetry.child")[0]
    assert [link.attributes for link in child.links] == [{names.LINK: names.LINK_PARENT}]
    steps = traced.named("workflow.step traces.rounds")
    assert [step.attributes[names.ROUND] for step in steps] == [0, 0, 1, 1, 2, 2]  # type: ignore[index]
    assert all(ids(step.links[0].context) == ids(before) for before, step in itertools.pairwise(steps))


async def test_failed_attempts_are_spans_with_an_error() -> None:
    """Each attempt is one span with its number, its outcome and the class of its error."""
    traced = Traced()
    async with WorkflowEngine("memory://", observers=[traced.observer]) as engine:
        handle = await engine.start(declined(), id="d")
        with pytest.raises(Exception, match="declined"):
            await handle.result(timeout=SOON)
    attempts = traced.named("workflow.attempt telemetry.decline")
    fields = (names.WORKFLOW_ID, names.STEP_ATTEMPT, names.OUTCOME, names.ERROR_TYPE)
    assert [tuple(span.attributes[field] for field in fields) for span in attempts] == [  # type: ignore[index]
        ("d", 1, "failed", "builtins.ValueError"), ("d", 2, "failed", "builtins.ValueError"),
    ]  # fmt: skip
    assert all(not span.status.is_ok for span in attempts)


async def test_call_that_starts_nothing_leaves_no_span() -> None:
    """A repeated start, which finds the first run, exports no second span, and its trace is not that of the run."""
    traced = Traced()
    async with WorkflowEngine("memory://", observers=[traced.observer]) as engine:
        for _ in range(2):
            await engine.start(order(1), id="o")
    assert len(traced.named("workflow.start telemetry.order")) == 1


async def test_run_that_nobody_traced_has_a_trace_of_its_own(tmp_path: Path) -> None:
    """A run that was started without an observer has one trace, in whatever process its steps run."""
    traced = Traced()
    async with WorkflowEngine(tmp_path / "store.db") as engine:
        await engine.start(order(1), id="o")
        await waiting(engine, "o", "event")
        await engine.start(order(1), id="p")
        await waiting(engine, "p", "event")
    for name in ("ann", None):
        async with WorkflowEngine(tmp_path / "store.db", observers=[traced.observer]) as engine:
            if name:
                await engine.send_event(approval, name, to="o")
                await engine.handle("o").result(timeout=SOON)
            else:
                await engine.cancel("p")
    traces: dict[str, set[int]] = {}
    for span in traced.spans:
        if span.attributes and names.WORKFLOW_ID in span.attributes:
            traces.setdefault(str(span.attributes[names.WORKFLOW_ID]), set()).add(ids(span)[0])
    assert {id: len(found) for id, found in traces.items()} == {"o": 1, "p": 1}
    assert traces["o"] != traces["p"]


async def test_activity_info_has_the_headers_of_the_trace() -> None:
    """`traceparent` and `tracestate` are those that the run was started with; without an observer they are None."""

    @activity(name="traces.info")
    async def info() -> list[str | None]:
        return [activity_info().traceparent, activity_info().tracestate]

    @workflow(name="traces.asking")
    def asking() -> Durable[list[str | None]]:
        return (yield from info())

    class Fixed(Notes):
        def capture(self, action: str, name: str) -> str:
            return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=1"

        @contextmanager
        def enter(self, attempt: AttemptBegun) -> Iterator[None]:
            yield

    for observers, expected in (
        ([Fixed()], ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1"]),
        ([], [None, None]),
    ):
        async with WorkflowEngine("memory://", observers=observers) as engine:
            assert await (await engine.start(asking())).result(timeout=SOON) == expected


class Broken(Notes):
    """An observer whose carrying of contexts raises."""

    def capture(self, action: str, name: str) -> str | None:
        """Raise."""
        raise RuntimeError("capture")

    def enter(self, attempt: AttemptBegun) -> Any:
        """Raise."""
        raise RuntimeError("enter")


async def test_carrier_that_raises_fails_neither_the_call_nor_the_activity(caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on without a trace, and the log has one line."""
    async with WorkflowEngine("memory://", observers=[Broken()]) as engine:
        assert await (await engine.start(parent())).result(timeout=SOON) == 2
    assert [line.getMessage() for line in caplog.records if "failed to carry" in line.getMessage()] == [
        "an observer failed to carry a trace into an activity: RuntimeError('enter')"
    ]


def test_sync_engine_carries_the_context_of_the_calling_thread() -> None:
    """A service without an event loop has its spans connected too."""
    traced = Traced()
    with SyncWorkflowEngine("memory://", observers=[traced.observer]) as engine:
        with traced.tracer.start_as_current_span("caller") as caller:
            handle = engine.start(parent())
        handle.result(timeout=SOON)
    (start,) = traced.named("workflow.start telemetry.parent")
    assert start.parent is not None
    assert ids(start.parent) == ids(caller)
    assert {ids(span)[0] for span in traced.spans} == {ids(caller)[0]}


async def test_observer_without_an_sdk_changes_nothing() -> None:
    """With the API alone nothing is recorded, and the caller's trace still reaches the activity."""
    seen: list[str | None] = []

    @activity(name="traces.seen")
    async def see() -> None:
        seen.append(activity_info().traceparent)

    @workflow(name="traces.seeing")
    def seeing() -> Durable[None]:
        yield from see()

    context = trace.SpanContext(0xA, 0xB, is_remote=True, trace_flags=trace.TraceFlags(1))
    token = otel_context.attach(trace.set_span_in_context(trace.NonRecordingSpan(context)))
    try:
        async with WorkflowEngine("memory://", observers=[OpenTelemetryObserver(trace.NoOpTracerProvider())]) as engine:
            await (await engine.start(seeing())).result(timeout=SOON)
    finally:
        otel_context.detach(token)
    assert seen == ["00-0000000000000000000000000000000a-000000000000000b-01"]


def test_fact_about_an_unknown_attempt_is_ignored() -> None:
    """An attempt that began before the observer was there has no span to end."""
    observer = Traced().observer
    fact: Fact = AttemptFinished(
        at_us=1, workflow_id="w", workflow_name="n", activity="a", position="0", attempt=1, outcome="ok", took_us=1
    )
    observer.observe(fact)
