"""Rebuilds stored workflows, and checks in advance whether they fit the present code.

The engine rebuilds a body with `session_of`, and if that fails, parks the workflow for the reason from `parking_of`.
`replay` does the same without an engine and changes nothing, so its result predicts what the engine will do.

This module knows nothing about where records and entries come from.
"""

from __future__ import annotations

import enum
import traceback
from typing import Any

import attrs

from durable.errors import CodecError, HistoryDiverged, InvariantViolated, TooDeepHere, UnknownWorkflow
from durable.model.begun import Begun, begun
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
    """Why a body could not be rebuilt because of `error`: the reason, the detail, and the position if there is one."""
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
    """Whether a stored workflow fits the present code."""

    FITS = "fits"
    PARKED = "would be parked"
    # The record waits for something, but the code raises an error there. Worse than parked: the workflow would end.
    FAILS = "would fail"
    # It crashed the process before and stays parked, whatever the code. It was not replayed.
    SET_ASIDE = "stays parked"


@attrs.frozen(kw_only=True)
class ReplayResult:
    """The result of replaying one workflow. `str()` of it is a report for people, with both sides of a divergence."""

    id: str
    name: str
    version: int
    status: WorkflowStatus
    fit: Fit
    reason: ParkReason | None = None
    detail: str = ""
    # The entry that the code did not accept, if any: its number, its position, and both sides of the difference.
    entry: int | None = None
    position: str | None = None
    recorded: str | None = None
    asked: str | None = None
    # File and line at which the body waits, or at which it raised.
    source: str | None = None
    # The number of the last entry. There may be fewer entries, because loops trim old ones.
    entries: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether the present code would park or fail the workflow."""
        return self.fit in (Fit.PARKED, Fit.FAILS)

    def __str__(self) -> str:
        is_still = self.fit is Fit.PARKED and self.status is WorkflowStatus.PARKED
        fate = "would stay parked" if is_still else self.fit.value
        text = f"{self.id} ({self.name}, version {self.version}) {fate}"
        if self.reason is not None:
            text += f": {self.reason.value}"
        if self.recorded is None:
            return "\n    ".join([text, *self.detail.splitlines()])
        place = f" at position {self.position}, entry {self.entry} of {self.entries}"
        where = f"  ({self.source})" if self.source else ""
        return f"{text}{place}\n  - recorded: {self.recorded}\n  + code asks: {self.asked}{where}"


def replay(history: WorkflowHistory, workflows: Workflows, codec: Codec) -> ReplayResult:
    """Rebuild the body of a workflow from its history, report how that went, and discard the body. Writes nothing.

    Raises `InvariantViolated` and `KeyboardInterrupt`; every other error becomes part of the result.
    """
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
        # What crashed the engine would crash this process too.
        return attrs.evolve(result, fit=Fit.SET_ASIDE, reason=record.park_reason, detail=record.park_detail or "")
    if history.damage is not None:
        return attrs.evolve(result, fit=Fit.PARKED, reason=ParkReason.UNREADABLE, detail=history.damage)
    has_begun = begun(record, has_entries=bool(history.entries))
    try:
        session = session_of(record, workflows, codec)
    except Exception as error:
        return _parked(result, error)
    try:
        ended = session.start() if has_begun is Begun.NO else session.replay(history.entries)
    except InvariantViolated:
        raise
    except Exception as error:
        fed = next((entry for entry in history.entries if entry.seq == session.fed), None)
        return _parked(result, error, fed, session)
    finally:
        session.close()
    # A body that runs for the first time may fail: that is not a misfit.
    if isinstance(ended, Failed) and has_begun is Begun.YES:
        return _failed(result, ended.error)
    return result


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
    """File and line where the body waits: at the position of the divergence, else at its first wait."""
    places = [error.position, *session.waits]
    return next((line for line in map(session.source, places) if line is not None), None)


def _failed(result: ReplayResult, error: BaseException) -> ReplayResult:
    if isinstance(error, KeyboardInterrupt):
        # Not an error of the body: the person who runs the check has pressed Ctrl-C.
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    source = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    detail = "".join(traceback.format_exception_only(error)).strip()
    return attrs.evolve(result, fit=Fit.FAILS, detail=f"{detail}  ({source})" if source else detail, source=source)
