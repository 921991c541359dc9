"""The list of bad inputs, by number: what is passed, our error, and what its message must say.

Each number names one bad input, in tables and in tests alike. `CALLS` are made on an open engine, `DEFINITIONS` need
none, `BODIES` are steps that fail their workflow, `PATHS` do not name a store. Those that need their own setup are
tests named `test_f<number>_…`; `ABSENT` lists those that cannot occur here yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, cast

import attrs

from durable import (
    CannotFork,
    CannotRepair,
    CannotRetry,
    CodecError,
    Durable,
    EngineConfig,
    Event,
    EventConflict,
    InvalidValue,
    OperationMisused,
    PayloadTooLarge,
    Retry,
    StoreUnusable,
    WorkflowAlreadyExists,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowTerminated,
    WrongType,
    activity,
    call,
    patched,
    removed,
    sleep,
    sleep_until,
    workflow,
)
from tests.bad_inputs.flows import UNSTORABLE, anything, cyclic, echo, go, nested, numbers, repeat, waiter

NAN, INF = float("nan"), float("inf")
LONG = "x" * 10_000_000
MIB = 1024 * 1024
NO_STEPS: tuple[Any, ...] = (42, None, [], "sleep")


@attrs.frozen
class Case:
    """One bad input."""

    number: int
    what: str
    act: Callable[..., Any]
    error: type[Exception]
    says: tuple[str, ...]

    def __str__(self) -> str:
        return f"F{self.number} {self.what}"


def _of(number: int, error: type[Exception], says: str, acts: dict[str, Callable[..., Any]]) -> list[Case]:
    """Cases of one number that get the same error; `says` are the parts of its message."""
    return [Case(number, what, act, error, tuple(says.split("|"))) for what, act in acts.items()]


def _ids(bad: Any) -> dict[str, Callable[[WorkflowEngine], Awaitable[object]]]:
    """Every call that takes an id."""
    return {
        "start": lambda engine: engine.start(waiter(), id=bad),
        "to": lambda engine: engine.send_event(go, 1, to=bad, allow_unstarted=True),
        "query_status": lambda engine: engine.query_status(bad),
        "query_result": lambda engine: engine.query_result(bad),
        "cancel": lambda engine: engine.cancel(bad),
        "terminate": lambda engine: engine.terminate(bad),
        "history": lambda engine: engine.runs.history(bad),
        "describe": lambda engine: engine.runs.describe(bad),
        "retry": lambda engine: engine.runs.retry(bad),
        "fork": lambda engine: engine.runs.fork(bad, "0"),
        "new_id": lambda engine: engine.runs.fork("waits", "0", new_id=bad),
        "repair": lambda engine: engine.runs.repair(bad, "0", 1, "why"),
    }


def _start(value: Callable[[], Any]) -> Callable[[WorkflowEngine], Awaitable[object]]:
    return lambda engine: engine.start(echo(value()))


def _named(bad: Any) -> dict[str, Callable[[WorkflowEngine], Awaitable[object]]]:
    return {
        "key": lambda engine: engine.send_event(go, 1, key=bad),
        "event_id": lambda engine: engine.send_event(go, 1, event_id=bad),
        "tag": lambda engine: engine.start(waiter(), tags=[bad]),
        "from_position": lambda engine: engine.runs.fork("waits", bad),
        "position": lambda engine: engine.runs.repair("waits", bad, 1, "why"),
    }


def _reason(bad: Any) -> dict[str, Callable[[WorkflowEngine], Awaitable[object]]]:
    return {"reason": lambda engine: engine.runs.repair("ended", "0", 1, bad)}


def _plan(**plan: Any) -> Callable[[WorkflowEngine], Awaitable[object]]:
    return lambda engine: engine.schedules.create("s", waiter(), **plan)


_ECHO = "workflow bad.echo: parameter 'value'"
CALLS: list[Case] = [
    *_of(1, InvalidValue, "workflow id|must not be empty", _ids("")),
    *_of(1, InvalidValue, "must not be empty", _named("")),
    *_of(1, InvalidValue, "reason|must not be empty", _reason("")),
    *_of(2, InvalidValue, "reason|limit is 1000", _reason("x" * 1001)),
    *_of(3, InvalidValue, "position|NUL", {
        "from_position": lambda engine: engine.runs.fork("waits", "0\0"),
        "position": lambda engine: engine.runs.repair("waits", "0\0", 1, "why"),
    }),
    *_of(3, InvalidValue, "reason|NUL", _reason("a\0b")),
    *_of(4, InvalidValue, "reason|lone surrogate", _reason("a\ud800")),
    *_of(7, WrongType, "reason|must be a str, not NoneType", _reason(None)),
    *_of(2, InvalidValue, "workflow id|10000000 characters|limit is 255", _ids(LONG)),
    *_of(2, InvalidValue, "limit is 255", _named("x" * 256)),
    *_of(3, InvalidValue, "workflow id|a\\x00b|NUL", _ids("a\0b")),
    *_of(4, InvalidValue, "workflow id|lone surrogate", _ids("a\ud800")),
    *_of(4, CodecError, _ECHO, {"argument": _start(lambda: "\ud800"), "inside": _start(lambda: ["\udfff"])}),
    *_of(
        4,
        CodecError,
        "event bad.anything: payload",
        {"payload": lambda engine: engine.send_event(anything, "\ud800")},
    ),
    *_of(7, WrongType, "workflow id|must be a str, not int", _ids(5)),
    *_of(7, WrongType, "workflow id|must be a str, not bytes", _ids(b"a")),
    *_of(7, WrongType, "must be a str, not list", _named([])),
    *_of(25, CodecError, _ECHO, {name: _start(UNSTORABLE[name]) for name in ("a lock", "a generator", "a function")}),
    *_of(26, CodecError, "payload|NaN", {
        "payload nan": lambda engine: engine.send_event(numbers, NAN),
        "payload inf": lambda engine: engine.send_event(numbers, INF),
    }),
    *_of(26, CodecError, _ECHO, {"argument nan": _start(lambda: NAN), "argument -inf": _start(lambda: [-INF])}),
    *_of(28, CodecError, _ECHO, {"int keys": _start(lambda: {1: 2}), "tuple keys": _start(lambda: {(1, 2): 3})}),
    *_of(29, CodecError, f"{_ECHO}|annotate it", {"Decimal": _start(lambda: Decimal(1)), "set": _start(lambda: {1})}),
    *_of(29, CodecError, _ECHO, {"tuple": _start(lambda: (1, 2)), "bytes": _start(lambda: b"x")}),
    *_of(30, CodecError, _ECHO, {name: _start(UNSTORABLE[name]) for name in UNSTORABLE if "another class" in name}),
    *_of(31, CodecError, f"{_ECHO}|contains itself", {"cycle": _start(cyclic)}),
    *_of(32, CodecError, f"{_ECHO}|nested too deeply", {"lists": _start(lambda: nested(10_000))}),
    *_of(33, PayloadTooLarge, f"arguments|max_payload_bytes={MIB}|pass a reference", {
        "argument": _start(lambda: "x" * MIB),
    }),
    *_of(33, PayloadTooLarge, f"bad.anything|max_payload_bytes={MIB}|pass a reference", {
        "payload": lambda engine: engine.send_event(anything, "x" * MIB),
        "payload to one": lambda engine: engine.send_event(anything, "x" * MIB, to="waits"),
    }),
    *_of(36, CodecError, _ECHO, {"hostile": _start(UNSTORABLE["a hostile object"])}),
    *_of(38, InvalidValue, "start: delay|must not be negative|-1", {
        "delay": lambda engine: engine.start(waiter(), delay=-1),
    }),
    *_of(39, InvalidValue, "start: delay|must be finite", {
        "nan": lambda engine: engine.start(waiter(), delay=NAN),
        "inf": lambda engine: engine.start(waiter(), delay=INF),
    }),
    *_of(39, WrongType, "start: delay|must be a timedelta or a number of seconds", {
        "text": lambda engine: engine.start(waiter(), delay=cast(Any, "5")),
        "Decimal": lambda engine: engine.start(waiter(), delay=cast(Any, Decimal(5))),
    }),
    *_of(42, WrongType, "since|naive|timezone.utc", {
        "since": lambda engine: engine.runs.list(since=datetime(2031, 1, 1)),
    }),
    *_of(46, InvalidValue, "schedule: cron", {
        "empty": _plan(cron=""), "minute 61": _plan(cron="61 * * * *"), "30 February": _plan(cron="0 0 30 2 *"),
        "long": _plan(cron="* " * 5_000_000),
    }),
    *_of(46, InvalidValue, "schedule|never ticks", {"never": _plan(cron="* * */20 * 1L")}),
    *_of(46, InvalidValue, "schedule: timezone|Europe/Berlin", {
        "zone": _plan(cron="@daily", timezone="Mars/Base"), "path": _plan(cron="@daily", timezone="../../etc/passwd"),
    }),
    *_of(46, InvalidValue, "schedule: every|at least one second", {"every": _plan(every=0.5)}),
    *_of(46, InvalidValue, "schedule|either cron= or every=", {
        "neither": _plan(), "both": _plan(cron="@daily", every=5),
    }),
    *_of(46, WrongType, "schedule: overlap|Overlap.SKIP", {"overlap": _plan(every=5, overlap="skip")}),
    *_of(46, WrongType, "schedules.create|@workflow", {
        "no call": lambda engine: engine.schedules.create("s", cast(Any, waiter), every=5),
        "activity": lambda engine: engine.schedules.create("s", repeat(1), every=5),
    }),
    *_of(46, InvalidValue, "schedules.create|with_id", {
        "id": lambda engine: engine.schedules.create("s", waiter().with_id("a"), every=5),
    }),
    *_of(46, InvalidValue, "schedule: name|limit is 200", {
        "name": lambda engine: engine.schedules.create("x" * 201, waiter(), every=5),
    }),
    *_of(43, InvalidValue, "start: delay", {
        "1e300": lambda engine: engine.start(waiter(), delay=1e300),
        "timedelta.max": lambda engine: engine.start(waiter(), delay=timedelta.max),
        "8,000 years": lambda engine: engine.start(waiter(), delay=timedelta(days=365 * 8000)),
    }),
    *_of(48, WorkflowNotFound, "'nobody'", {"event": lambda engine: engine.send_event(go, 1, to="nobody")}),
    *_of(49, WorkflowTerminated, "'ended'|succeeded", {
        "event": lambda engine: engine.send_event(go, 1, to="ended"),
        "repair": lambda engine: engine.runs.repair("ended", "0", 1, "why"),
    }),
    *_of(49, CannotRetry, "'ended'|only a failed or parked workflow|succeeded", {
        "retry": lambda engine: engine.runs.retry("ended"),
    }),
    *_of(49, CannotRetry, "'waits'|suspended", {"retry": lambda engine: engine.runs.retry("waits")}),
    *_of(49, CannotFork, "'waits'|position 0|nothing is recorded yet", {
        "fork": lambda engine: engine.runs.fork("waits", "0"),
    }),
    *_of(
        49,
        CannotFork,
        "'ended'|position u.0|recorded are 0",
        {"fork": lambda engine: engine.runs.fork("ended", "u.0")},
    ),
    *_of(49, WorkflowAlreadyExists, "'waits'", {
        "taken": lambda engine: engine.runs.fork("ended", "0", new_id="waits"),
    }),
    *_of(49, CannotRepair, "'waits'|position 0|nothing is recorded", {
        "repair": lambda engine: engine.runs.repair("waits", "0", 1, "why"),
    }),
    *_of(50, EventConflict, "'used'|use a new id", {
        "payload": lambda engine: engine.send_event(go, 2, to="ended", event_id="used"),
        "target": lambda engine: engine.send_event(go, 1, to="waits", event_id="used"),
        "key": lambda engine: engine.send_event(go, 1, to="ended", key="k", event_id="used"),
    }),
    *_of(53, WorkflowNotFound, "'nobody'", {
        "cancel": lambda engine: engine.cancel("nobody"),
        "terminate": lambda engine: engine.terminate("nobody"),
        "handle": lambda engine: engine.handle("nobody").cancel(),
        "retry": lambda engine: engine.runs.retry("nobody"),
        "fork": lambda engine: engine.runs.fork("nobody", "0"),
        "repair": lambda engine: engine.runs.repair("nobody", "0", 1, "why"),
    }),
    *_of(54, InvalidValue, "result: timeout|must not be negative", {
        "negative": lambda engine: engine.handle("waits").result(timeout=-1),
        "negative timedelta": lambda engine: engine.handle("waits").result(timeout=timedelta(seconds=-1)),
    }),
    *_of(55, WorkflowNotFound, "'nobody'", {"result": lambda engine: engine.handle("nobody").result()}),
    *_of(62, InvalidValue, "limit|must be 1 to 1000|after=", {
        f"{limit} {name}": lambda engine, limit=limit, name=name: getattr(engine, name).list(limit=limit)
        for limit in (0, -1, 10**9) for name in ("runs", "dead_letters")
    }),
    *_of(62, WrongType, "limit|must be an int", {
        "bool": lambda engine: engine.runs.list(limit=True),
        "float": lambda engine: engine.runs.list(limit=cast(Any, 1.5)),
        "text": lambda engine: engine.dead_letters.list(limit=cast(Any, "1")),
    }),
    *_of(62, WrongType, "status|WorkflowStatus", {
        "status": lambda engine: engine.runs.list(status=cast(Any, ["' OR 1=1"])),
    }),
]  # fmt: skip


def _plain() -> None: ...


async def _stream() -> Any:
    yield 1


def _nested() -> Any:
    def inner() -> Durable[None]:
        yield from sleep(0)

    return inner


_any_workflow = cast(Any, workflow)
_COUNTS = ("max_running_activities", "max_threads", "max_loaded_workflows", "max_inbox", "max_batch", "timer_window")


def _config(value: Any) -> dict[str, Callable[[], object]]:
    return {f"{name}={value}": partial(EngineConfig, **{name: value}) for name in _COUNTS}


DEFINITIONS: list[Case] = [
    *_of(13, WrongType, "workflow _plain|generator function|async def", {"def": lambda: _any_workflow(_plain)}),
    *_of(13, WrongType, "workflow|generator function", {"no function": lambda: _any_workflow(5)}),
    *_of(14, WrongType, "workflow _stream|generator function|async def", {"stream": lambda: _any_workflow(_stream)}),
    *_of(14, WrongType, "activity _stream|plain def or async def", {"activity": lambda: activity(_stream)}),
    *_of(15, InvalidValue, "inner|no stable name|give name=", {"nested": lambda: _any_workflow(_nested())}),
    *_of(15, InvalidValue, "lambda|no stable name|give name=", {
        "activity": lambda: activity(lambda: 1),
        "call": lambda: call(lambda: 1),
    }),
    *_of(45, InvalidValue, "Retry.max_attempts|1 to 1,000,000|counts the first", {
        str(attempts): lambda attempts=attempts: Retry(max_attempts=attempts) for attempts in (0, -1, 10**9)
    }),
    *_of(45, InvalidValue, "Retry.factor|must be 1 to 1000", {
        str(factor): lambda factor=factor: Retry(factor=factor) for factor in (0.5, 0, -2, NAN, INF)
    }),
    *_of(45, InvalidValue, "Retry.first_delay", {
        str(delay): lambda delay=delay: Retry(first_delay=delay) for delay in (NAN, INF, -1, 1e300)
    }),
    *_of(45, InvalidValue, "Retry.jitter|0 to 1", {"jitter": lambda: Retry(jitter=1.5)}),
    *_of(45, WrongType, "Retry.retry_on|exception class", {"retry_on": lambda: Retry(retry_on=cast(Any, "Error"))}),
    *_of(45, InvalidValue, "timeout|longer than zero", {"timeout": lambda: activity(timeout=0)(_plain)}),
    *_of(51, InvalidValue, "event name|must not be empty", {"empty": lambda: Event[int]("")}),
    *_of(51, InvalidValue, "event name|limit is 255", {"long": lambda: Event[int](LONG)}),
    *_of(51, WrongType, "event name|must be a str", {"None": lambda: Event[int](cast(Any, None))}),
    *_of(61, InvalidValue, "EngineConfig.|must be at least 1, not 0", _config(0)),
    *_of(61, InvalidValue, "EngineConfig.|must be at least 1, not -1", _config(-1)),
    *_of(61, WrongType, "EngineConfig.|must be an int, not bool", _config(True)),
    *_of(61, WrongType, "EngineConfig.|must be an int, not float", _config(1.5)),
]  # fmt: skip


def _change(bad: Any) -> dict[str, Callable[[], Any]]:
    return {"removed": lambda: removed(bad), "patched": lambda: [patched(bad)]}


BODIES: list[Case] = [
    *_of(1, InvalidValue, "must not be empty", _change("")),
    *_of(2, InvalidValue, "limit is 255", _change("x" * 256)),
    *_of(3, InvalidValue, "NUL", _change("a\0b")),
    *_of(4, InvalidValue, "lone surrogate", _change("a\ud800")),
    *_of(7, WrongType, "must be a str, not int", _change(5)),
    *_of(16, OperationMisused, "yield", {
        str(value): partial(list, [value]) for value in NO_STEPS
    }),
    *_of(38, InvalidValue, "sleep|must not be negative", {
        "sleep": lambda: sleep(-1),
        "timedelta": lambda: sleep(timedelta(microseconds=-1)),
    }),
    *_of(38, InvalidValue, "within|must not be negative", {"within": lambda: go.wait().within(-1)}),
    *_of(39, InvalidValue, "sleep|must be finite", {"nan": lambda: sleep(NAN), "inf": lambda: sleep(INF)}),
    *_of(39, WrongType, "sleep|must be a timedelta or a number of seconds", {
        "text": lambda: sleep(cast(Any, "5")),
        "Decimal": lambda: sleep(cast(Any, Decimal(5))),
        "bool": lambda: sleep(True),
    }),
    *_of(42, WrongType, "sleep_until|naive|timezone.utc", {"until": lambda: sleep_until(datetime(2031, 1, 1))}),
    *_of(42, WrongType, "sleep_until|must be an aware datetime", {"number": lambda: sleep_until(cast(Any, 5))}),
    *_of(43, InvalidValue, "sleep", {"1e300": lambda: sleep(1e300), "max": lambda: sleep(timedelta.max)}),
    *_of(43, InvalidValue, "year 9999", {"far": lambda: sleep(timedelta(days=365 * 8000))}),
    *_of(25, CodecError, "bad.repeat|parameter 'value'", {"argument": lambda: repeat(object())}),
]  # fmt: skip

PATHS: list[Case] = [
    *_of(59, StoreUnusable, ":memory:|memory://", {
        ":memory:": lambda: ":memory:",
        "sqlite:///:memory:": lambda: "sqlite:///:memory:",
    }),
    *_of(59, StoreUnusable, "not the path of a file", {"file::memory:": lambda: "file::memory:", "empty": lambda: ""}),
]  # fmt: skip

ABSENT = {
    10: "stores have no schema names; they come with PostgreSQL",
    56: "nothing bounds how many children one step may start yet",
    63: "there is no dashboard yet",
    64: "there are no hooks for logs or traces yet",
}
