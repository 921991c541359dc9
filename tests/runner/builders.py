"""Builders for tests of the runner: sessions, history entries, and readers of results. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from durable.errors import OperationMisused
from durable.model.clock import SECOND, from_datetime, to_datetime
from durable.model.codec import Codec
from durable.model.error_codec import pack_error
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.ambient import Identity
from durable.runner.definitions import Durable, WorkflowDef, activity, workflow
from durable.runner.events import Event
from durable.runner.fibers import WaitCondition
from durable.runner.ops import sleep
from durable.runner.results import Completed, ContinueAs, Failed, SessionResult, Suspended
from durable.runner.session import WorkflowSessionRunner

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
START = from_datetime("start", NEW_YEAR)
CODEC = Codec()


class Declined(Exception):
    """An error that can be rebuilt from its stored form."""


class Opaque(Exception):
    """An error whose constructor needs more than its `args`."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")


def unloaded(message: str) -> Exception:
    """An error whose class cannot be found by its name."""

    class Unloaded(Exception):
        pass

    return Unloaded(message)


@activity
def charge(amount: int) -> int:
    """An activity that takes and returns a number."""
    return amount


@activity
def ship(items: list[str]) -> str | None:
    """An activity that takes a mutable argument and may return None."""
    return ",".join(items)


@activity
async def notify(text: str = "") -> None:
    """An activity without a result."""


approval = Event[str | None]("approval")


# --- sessions -----------------------------------------------------------------------------------------------------


def a_session(definition: WorkflowDef[Any, Any], *args: Any, id: str = "w-1", round: int = 0) -> WorkflowSessionRunner:
    """A session that has not started. Its workflow was created at the new year."""
    who = Identity(id, definition.name, definition.version, round, START)
    return WorkflowSessionRunner(definition, args, {}, who=who, start_at=START, codec=CODEC)


def run(definition: WorkflowDef[Any, Any], *entries: HistoryEntry) -> SessionResult:
    """The result of a workflow without arguments after these entries."""
    return a_session(definition).replay(entries)


def suspended(result: SessionResult) -> Suspended:
    """The result, which must be that of a body that waits."""
    assert isinstance(result, Suspended)
    return result


def opened(result: SessionResult) -> list[str]:
    """The positions of the waits that the body has opened since the last result."""
    return [wait.position for wait in suspended(result).opened]


def withdrawn(result: SessionResult) -> list[str]:
    """The positions of the waits that the body has given up since the last result."""
    return [wait.position for wait in suspended(result).withdrawn]


def value_of(result: SessionResult) -> Any:
    """The value that the body returned."""
    assert isinstance(result, Completed), result
    return result.value


def error_of(result: SessionResult) -> BaseException:
    """The error that the body raised."""
    assert isinstance(result, Failed), result
    return result.error


def picture(session: WorkflowSessionRunner, result: SessionResult) -> dict[str, Any]:
    """Everything that is visible of a session from outside, in a form that can be compared."""
    waits = [
        (wait.position, wait.kind, wait.name, wait.deadline, wait.args, wait.kwargs, wait.input, wait.opened_at,
         wait.attempt, wait.retry_at, wait.error, session.source(wait.position))
        for wait in session.waits.values()
    ]  # fmt: skip
    ended: tuple[Any, ...] = ()
    match result:
        case Completed(value):
            ended = ("completed", value)
        case Failed(error):
            ended = ("failed", type(error), error.args)
        case ContinueAs(call):
            ended = ("continue as", call.name, call.args, call.kwargs)
        case Suspended():
            ended = ("suspended",)
    activities = sum(wait.kind is EntryKind.ACTIVITY for wait in session.waits.values())
    assert session.waits.open_activities == activities
    return {"waits": waits, "now": session.now, "wake_at": session.wake_at(), "ended": ended}


# --- entries ------------------------------------------------------------------------------------------------------


def seconds(count: float) -> int:
    """The instant `count` seconds after the workflow was created."""
    return START + round(count * SECOND)


def instant(count: float) -> datetime:
    """The same instant as a datetime."""
    return to_datetime(seconds(count))


def _entry(seq: int, position: str, kind: EntryKind, name: str, outcome: str) -> HistoryEntry:
    """An entry recorded `seq` seconds after the start."""
    return HistoryEntry(seq, position, kind, name, EntryStatus.OK, outcome, seconds(seq))


def activity_ok(seq: int, position: str, name: str, value: Any) -> HistoryEntry:
    """An activity returned."""
    return _entry(seq, position, EntryKind.ACTIVITY, name, json.dumps(value))


def activity_error(seq: int, position: str, name: str, error: BaseException) -> HistoryEntry:
    """An activity failed for good."""
    return HistoryEntry(
        seq, position, EntryKind.ACTIVITY, name, EntryStatus.ERROR, pack_error(error), seconds(seq)
    )  # fmt: skip


def activity_retry(seq: int, position: str, name: str, retry_at: int | None) -> HistoryEntry:
    """An attempt failed, and another one will follow."""
    error = pack_error(Declined("not yet"))
    return HistoryEntry(seq, position, EntryKind.ACTIVITY, name, EntryStatus.RETRY, error, seconds(seq), retry_at)


def timer_fired(seq: int, position: str) -> HistoryEntry:
    """A timer fired."""
    return _entry(seq, position, EntryKind.TIMER, "timer", "null")


def event_came(seq: int, position: str, payload: Any, name: str = "approval") -> HistoryEntry:
    """An event was delivered."""
    return _entry(seq, position, EntryKind.EVENT, name, json.dumps(payload))


def child_ok(seq: int, position: str, name: str, value: Any) -> HistoryEntry:
    """A child ended well."""
    return _entry(seq, position, EntryKind.CHILD, name, json.dumps(value))


def cancellation(seq: int, reason: str | None = None) -> HistoryEntry:
    """The workflow was cancelled."""
    return _entry(seq, "", EntryKind.CANCEL, "", json.dumps(reason))


def answer(wait: WaitCondition, seq: int, value: Any = None) -> HistoryEntry:
    """An entry that answers an open wait successfully."""
    return _entry(seq, wait.position, wait.kind, wait.name, json.dumps(value))


def with_outcome(entry: HistoryEntry, outcome: str) -> HistoryEntry:
    """The same entry with another stored outcome."""
    return HistoryEntry(entry.seq, entry.position, entry.kind, entry.name, entry.status, outcome, entry.at_us)


def hours(count: float) -> timedelta:
    """A duration in hours."""
    return timedelta(hours=count)


def misuse(definition: WorkflowDef[[], Any]) -> str:
    """The message for a workflow that misuses an operation before its first wait."""
    error = error_of(run(definition))
    assert isinstance(error, OperationMisused), error
    return str(error)


def workflow_of(statement: Callable[[], Any]) -> WorkflowDef[[], Any]:
    """A workflow that runs a statement before its first wait. It returns "unreported" if that is not refused."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        statement()
        yield from sleep(0)
        return "unreported"

    return body


def refuse(*_held: Any) -> Any:
    """Raises. The traceback holds the frame, and so the arguments."""
    raise Declined("no")
