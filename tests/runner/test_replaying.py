"""A stored workflow is replayed without an engine, and the result predicts what the engine would do."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable.errors import InvariantViolated
from durable.model.records import HistoryEntry, ParkReason, WorkflowHistory, WorkflowRecord, WorkflowStatus
from durable.model.registry import Registry
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.ops import sleep
from durable.runner.replaying import Fit, ReplayResult, replay
from durable.runner.session import WorkflowSessionRunner
from tests.runner.builders import CODEC, START, activity_ok, approval, charge, notify, timer_fired, with_outcome


def stored(*entries: HistoryEntry, **changes: Any) -> WorkflowHistory:
    """An unfinished workflow named `w` with these entries."""
    record = WorkflowRecord(
        key=1,
        id="w-1",
        name="w",
        status=WorkflowStatus.SUSPENDED,
        input="{}",
        created_at=START,
        start_at=START,
    )
    return WorkflowHistory(attrs.evolve(record, **changes), entries)


def replayed(history: WorkflowHistory, *workflows: WorkflowDef[..., Any]) -> ReplayResult:
    """The result of replaying a history with some workflows."""
    return replay(history, Registry[WorkflowDef[Any, Any]](workflows), CODEC)


def pay() -> Durable[int]:
    """Pays, waits for an answer, pays again."""
    paid = yield from charge(1)
    yield from approval.wait()
    return paid + (yield from charge(2))


def tell() -> Durable[None]:
    """Asks for something else where `pay` pays."""
    yield from notify("first")


# Two versions of the code of one workflow.
paying = WorkflowDef[[], int](pay, "w", 1)
notifying = WorkflowDef[[], None](tell, "w", 1)
PAID = activity_ok(1, "0", "charge", 5)


def test_history_that_fits() -> None:
    """A body that waits where its history ends fits, with or without entries."""
    assert replayed(stored(PAID), paying).fit is Fit.FITS
    assert replayed(stored(), paying) == ReplayResult(
        id="w-1", name="w", version=1, status=WorkflowStatus.SUSPENDED, fit=Fit.FITS
    )


def test_divergence_has_both_sides_and_the_line() -> None:
    """Code that asks for something else gets a result with the entry, both sides and the line of the request."""
    result = replayed(stored(PAID, timer_fired(2, "1")), notifying)
    assert (result.fit, result.reason, result.is_bad) == (Fit.PARKED, ParkReason.DIVERGED, True)
    assert (result.entry, result.position, result.entries) == (1, "0", 2)
    assert (result.recorded, result.asked) == ("activity charge", "activity notify")
    assert result.source is not None
    assert result.source.startswith(__file__)
    assert str(result).splitlines() == [
        "w-1 (w, version 1) would be parked: diverged at position 0, entry 1 of 2",
        "  - recorded: activity charge",
        f"  + code asks: activity notify  ({result.source})",
    ]


def test_divergence_elsewhere_shows_where_the_body_waits() -> None:
    """If nothing is asked at the position of the entry, the line is that of the body's first wait."""
    result = replayed(stored(activity_ok(1, "7", "charge", 5)), paying)
    assert result.asked == "nothing here; it waits for activity charge at 0"
    assert result.source is not None


def test_divergence_of_a_body_that_has_ended() -> None:
    """A body that ends before its history does is parked, and has no line."""

    @workflow(name="w")
    def short() -> Durable[int]:
        return (yield from charge(1))

    result = replayed(stored(PAID, timer_fired(2, "1")), short)
    assert (result.reason, result.entry, result.source) == (ParkReason.DIVERGED, 2, None)
    assert str(result).endswith("+ code asks: nothing: the workflow has ended")


def test_parked_workflow_stays_parked_in_words() -> None:
    """The text for a workflow that is parked already says that it stays parked."""
    history = stored(PAID, status=WorkflowStatus.PARKED, park_reason=ParkReason.DIVERGED)
    assert "(w, version 1) would stay parked: diverged" in str(replayed(history, notifying))
    assert replayed(history, paying).fit is Fit.FITS


def test_unknown_code_and_version() -> None:
    """An unknown name or version is parked, with the fix in the detail."""
    for history in (stored(PAID, name="other"), stored(PAID, version=2)):
        result = replayed(history, paying)
        assert (result.fit, result.reason, result.entry) == (Fit.PARKED, ParkReason.UNKNOWN_CODE, None)
        assert "import the module that defines it" in str(result)


def test_unreadable_arguments_and_outcomes() -> None:
    """Arguments and outcomes that do not fit the code, and damaged entries, are parked as unreadable."""
    results = {
        "arguments": replayed(stored(PAID, input='{"amount": 1}'), paying),
        "outcome": replayed(stored(with_outcome(PAID, '"five"')), paying),
        "rows": replayed(WorkflowHistory(stored().record, damage="history 3: is torn"), paying),
    }
    assert {result.reason for result in results.values()} == {ParkReason.UNREADABLE}
    assert "no parameter 'amount'" in results["arguments"].detail
    assert (results["outcome"].entry, results["outcome"].position) == (1, "0")
    assert str(results["rows"]).endswith("would be parked: unreadable\n    history 3: is torn")


def test_body_that_cannot_be_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """An `InvariantViolated` is raised; any other error during the replay parks with its traceback."""

    def broken(error: Exception) -> Any:
        def start(self: WorkflowSessionRunner) -> Any:
            raise error

        return start

    monkeypatch.setattr(WorkflowSessionRunner, "start", broken(KeyError("lost")))
    result = replayed(stored(PAID), paying)
    assert result.reason is ParkReason.UNREADABLE
    assert result.detail.endswith("KeyError: 'lost'\n")
    monkeypatch.setattr(WorkflowSessionRunner, "start", broken(InvariantViolated("a bug")))
    with pytest.raises(InvariantViolated):
        replayed(stored(PAID), paying)


def test_code_that_raises_instead_of_waiting() -> None:
    """A workflow stored as waiting whose code now raises would fail, and the result has the line."""

    @workflow(name="w")
    def broken() -> Durable[int]:
        paid = yield from charge(1)
        raise ValueError(f"{paid} is odd")

    result = replayed(stored(PAID), broken)
    assert (result.fit, result.reason, result.is_bad) == (Fit.FAILS, None, True)
    assert str(result) == f"w-1 (w, version 1) would fail\n    ValueError: 5 is odd  ({result.source})"
    assert str(result.source).startswith(__file__)


def test_failure_without_a_line() -> None:
    """A failure without a place in the code, such as an operation dropped at the end, has no line."""

    @workflow(name="w")
    def dropping() -> Durable[None]:
        yield from charge(1)
        charge(2)  # type: ignore[unused-awaitable]

    result = replayed(stored(PAID), dropping)
    assert (result.fit, result.source) == (Fit.FAILS, None)
    assert "never yielded" in result.detail


def test_delayed_start_may_do_anything() -> None:
    """A workflow whose body has never run is new: it may do anything at its start."""

    @workflow(name="w")
    def failing() -> Durable[None]:
        yield from ()
        raise ValueError

    later = START + 60
    assert replayed(stored(start_at=later, wake_at=later), failing).fit is Fit.FITS
    assert replayed(stored(start_at=later), failing).fit is Fit.FAILS
    assert replayed(stored(start_at=later, status=WorkflowStatus.PARKED), failing).fit is Fit.FAILS, "it may have begun"
    assert replayed(stored(round=3, status=WorkflowStatus.RUNNING), failing).fit is Fit.FITS
    assert replayed(stored(round=3), failing).fit is Fit.FAILS, "it waits, so it has begun"
    assert replayed(stored(), failing).fit is Fit.FAILS


def test_crasher_is_not_replayed() -> None:
    """A workflow that crashed the process is not replayed; it stays parked whatever the code."""

    @workflow(name="w")
    def deadly() -> Durable[None]:
        raise AssertionError("was run")
        yield from sleep(1)

    crashed = stored(status=WorkflowStatus.PARKED, park_reason=ParkReason.CRASHED, park_detail="three times")
    result = replayed(crashed, deadly)
    assert (result.fit, result.is_bad, result.detail) == (Fit.SET_ASIDE, False, "three times")
    assert replayed(stored(status=WorkflowStatus.PARKED, park_reason=ParkReason.CRASHED), deadly).detail == ""


def test_interruption_is_not_an_error_of_the_body() -> None:
    """Ctrl-C during a replay ends the check and is not counted as a failure of the workflow."""

    @workflow(name="w")
    def interrupted() -> Durable[None]:
        yield from charge(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replayed(stored(PAID), interrupted)


def test_body_is_closed_without_running_operations() -> None:
    """After a replay the body is closed: pure cleanup runs, operations in it do not."""
    log: list[str] = []

    @workflow(name="w")
    def careful() -> Durable[None]:
        try:
            yield from charge(1)
        finally:
            log.append("closed")
            yield from notify("never")

    assert replayed(stored(), careful).fit is Fit.FITS
    assert log == ["closed"]
