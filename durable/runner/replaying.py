"""Whether a stored workflow fits the code at hand: its body rebuilt from its record, and what comes of that.

The engine rebuilds a body with `session_of` and parks it as `parking_of` says; `replay` does both without an engine
and without touching anything, so what it says beforehand is what the engine will do. Must not know where records and
entries come from.
"""

from __future__ import annotations

import enum
import traceback
from collections.abc import Sequence
from typing import Any

import attrs

from durable.errors import CodecError, HistoryDiverged, InvariantViolated, TooDeepHere, UnknownWorkflow
from durable.model.codec import Arguments, Codec
from durable.model.records import BY_NUMBER, HistoryEntry, ParkReason, WorkflowHistory, WorkflowRecord, WorkflowStatus
from durable.model.registry import Registry
from durable.runner.ambient import Identity
from durable.runner.definitions import WorkflowDef
from durable.runner.results import Failed
from durable.runner.session import WorkflowSessionRunner

Workflows = Registry[WorkflowDef[Any, Any]]


def session_of(
    record: WorkflowRecord, workflows: Workflows, codec: Codec, arguments: Arguments | None = None
) -> WorkflowSessionRunner:
    """The session of a stored workflow, not started yet. Raises `UnknownWorkflow`, or `CodecError` for its input."""
    definition = workflows.get(record.name, record.version)
    args, kwargs = arguments or definition.coder(codec).unpack_arguments(record.input)
    who = Identity(record.id, record.name, record.version, record.round, record.created_at, record.tags)
    session = WorkflowSessionRunner(definition, args, kwargs, who=who, start_at=record.start_at, codec=codec)
    if record.position_format == BY_NUMBER:
        session.names_branches = False
    return session


def parking_of(error: Exception) -> tuple[ParkReason, str, str | None]:
    """Why a workflow is parked whose body could not be rebuilt, the detail of it, and the position if there is one."""
    match error:
        case UnknownWorkflow():
            return ParkReason.UNKNOWN_CODE, str(error), None
        case HistoryDiverged():
            return ParkReason.DIVERGED, str(error), error.position
        case CodecError() | TooDeepHere():
            return ParkReason.UNREADABLE, str(error), None
        case _:
            return ParkReason.UNREADABLE, "".join(traceback.format_exception(error)), None


class Fit(enum.Enum):
    """How a workflow and the code at hand go together."""

    FITS = "fits"
    PARKED = "would be parked"
    # It waits for something, and the code raises an error instead: worse than parked, because that is its end.
    FAILS = "would fail"
    # It took the process down before and stays parked, whatever the code; it was not replayed.
    SET_ASIDE = "stays parked"


@attrs.frozen(kw_only=True)
class ReplayResult:
    """What came of the replay of one workflow."""

    id: str
    name: str
    version: int
    status: WorkflowStatus
    fit: Fit
    reason: ParkReason | None = None
    detail: str = ""
    # The entry that the code could not take, if there is one: its number, its position and both sides of the diff.
    entry: int | None = None
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    # File and line at which the body waits, or waited when it ended.
    source: str | None = None
    # The number of the last entry; loops trim some before it.
    entries: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether the code at hand would stop or end it."""
        return self.fit in (Fit.PARKED, Fit.FAILS)

    def __str__(self) -> str:
        is_still = self.fit is Fit.PARKED and self.status is WorkflowStatus.PARKED
        fate = "would stay parked" if is_still else self.fit.value
        what = f"{self.id} ({self.name}, version {self.version}) {fate}"
        if self.reason is not None:
            what += f": {self.reason.value}"
        if self.recorded is None:
            return "\n    ".join([what, *self.detail.splitlines()])
        place = f" at position {self.position}, entry {self.entry} of {self.entries}"
        where = f"  ({self.source})" if self.source else ""
        return f"{what}{place}\n  - recorded: {self.recorded}\n  + code asks: {self.asked}{where}"


def replay(history: WorkflowHistory, workflows: Workflows, codec: Codec) -> ReplayResult:
    """Rebuild the body of a workflow from its history and throw it away again. Nothing is written anywhere."""
    record = history.record
    result = ReplayResult(
        id=record.id,
        name=record.name,
        version=record.version,
        status=record.status,
        fit=Fit.FITS,
        entries=history.entries[-1].seq if history.entries else 0,
    )
    if record.park_reason is ParkReason.CRASHED:
        # Whatever killed the engine would kill us.
        return attrs.evolve(result, fit=Fit.SET_ASIDE, reason=record.park_reason, detail=record.park_detail or "")
    if history.damage is not None:
        return attrs.evolve(result, fit=Fit.PARKED, reason=ParkReason.UNREADABLE, detail=history.damage)
    try:
        session = session_of(record, workflows, codec)
    except Exception as error:
        return _parked(result, error)
    try:
        ended = session.start() if is_first_run(record, history.entries) else session.replay(history.entries)
    except InvariantViolated:
        raise
    except Exception as error:
        fed = next((entry for entry in history.entries if entry.seq == session.fed), None)
        return _parked(result, error, fed, session)
    finally:
        session.close()
    if isinstance(ended, Failed) and not _may_be_first_run(record, history.entries):
        return _failed(result, ended.error)
    return result


def is_first_run(record: WorkflowRecord, entries: Sequence[HistoryEntry]) -> bool:
    """Whether the body has certainly never run: a delayed start that still waits for its time.

    Parking takes the deadline away, so a parked run counts as begun: one that had begun an activity before it was
    parked must not take other code now (I24). `patched` then answers False, which is right for either.
    """
    return not entries and record.created_at < record.start_at == record.wake_at


def _may_be_first_run(record: WorkflowRecord, entries: Sequence[HistoryEntry]) -> bool:
    """Whether the body may not have run yet: also one of the next round. If it fails then, that is no change."""
    # A `continue_as` is one commit, the start of the next round another; one that waits has begun.
    is_next = not entries and record.round > 0 and record.status is not WorkflowStatus.SUSPENDED
    return is_next or is_first_run(record, entries)


def _parked(
    result: ReplayResult,
    error: Exception,
    entry: HistoryEntry | None = None,
    session: WorkflowSessionRunner | None = None,
) -> ReplayResult:
    reason, detail, _ = parking_of(error)
    result = attrs.evolve(result, fit=Fit.PARKED, reason=reason, detail=detail)
    if entry is not None:
        result = attrs.evolve(result, entry=entry.seq, position=entry.position)
    if isinstance(error, HistoryDiverged) and session is not None:
        result = attrs.evolve(result, recorded=error.recorded, asked=error.asked, source=_source(session, error))
    return result


def _source(session: WorkflowSessionRunner, error: HistoryDiverged) -> str | None:
    """Where the body waits: at the position in question, else at the first of its waits."""
    places = [error.position, *session.waits]
    return next((line for line in map(session.source, places) if line is not None), None)


def _failed(result: ReplayResult, error: BaseException) -> ReplayResult:
    if isinstance(error, KeyboardInterrupt):
        # Not the body's: the person in front of the check wants it to end.
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    source = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    detail = "".join(traceback.format_exception_only(error)).strip()
    return attrs.evolve(result, fit=Fit.FAILS, detail=f"{detail}  ({source})" if source else detail, source=source)
