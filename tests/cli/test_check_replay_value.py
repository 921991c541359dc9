"""`durable.testing.check_replay`: a report for a user's test, from a store or from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from durable import (
    Codec,
    Durable,
    Event,
    ParkReason,
    WorkflowEngine,
    WorkflowStatus,
    WrongType,
    activity,
    sleep,
    workflow,
)
from durable.model.shapes.converter import make_converter
from durable.runner.definitions import REGISTRY, WorkflowDef
from durable.testing import Fit, check_replay, export_histories, load_histories, save_histories
from tests.scenarios.kit import waiting

pytestmark = pytest.mark.anyio
go = Event[int]("replay-value-go")


@activity
async def double(number: int) -> int:
    """An activity."""
    return 2 * number


def old(number: int) -> Durable[int]:
    """Doubles, waits, doubles again."""
    number = yield from double(number)
    number += yield from go.wait()
    return (yield from double(number))


def new(number: int) -> Durable[int]:
    """Waits first."""
    yield from sleep(1)
    return (yield from double(number))


def numbers(fn: Any) -> WorkflowDef[[int], int]:
    """The workflow with the old or the new code."""
    return WorkflowDef(fn, "replay-value-numbers", 1)


async def under_way(path: Path) -> None:
    """A store with two unfinished workflows and an ended one."""
    async with WorkflowEngine(path, workflows=[numbers(old)]) as engine:
        for id in ("a", "b", "c"):
            await engine.start(numbers(old)(5), id=id)
            await waiting(engine, id, "event")
        await engine.send_event(go, 1, to="c")
        await engine.handle("c").result()


async def test_report_predicts_what_the_engine_does(tmp_path: Path) -> None:
    """The report predicts for changed code what an engine with that code does."""
    path = tmp_path / "store.db"
    await under_way(path)
    report = check_replay(export_histories(path), [numbers(new)])
    assert [(result.id, result.fit, result.reason) for result in report.results] == [
        ("a", Fit.PARKED, ParkReason.DIVERGED),
        ("b", Fit.PARKED, ParkReason.DIVERGED),
    ]
    assert not report.ok
    assert str(report).startswith("2 workflows replayed, 2 do not fit this code\na (replay-value-numbers")
    async with WorkflowEngine(path, workflows=[numbers(new)]) as engine:
        await engine.send_event(go, 1, to="a")
        description = await engine.runs.describe("a")
        assert (description.summary.status, description.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
        assert report.bad[0].detail == description.summary.parked
    assert check_replay(export_histories(path), [numbers(old)]).ok


async def test_histories_live_in_a_repository(tmp_path: Path) -> None:
    """Histories that were saved as files are replayed without a store, with the same report."""
    path = tmp_path / "store.db"
    await under_way(path)
    files = save_histories(export_histories(path, limit=1), tmp_path / "histories")
    assert len(files) == 1
    assert check_replay(load_histories(tmp_path / "histories"), [numbers(old)]).ok
    (bad,) = check_replay(load_histories(tmp_path / "histories"), [numbers(new)]).bad
    assert (bad.recorded, bad.asked) == ("activity double", "timer timer")


async def test_imported_workflows_are_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a list, every imported workflow is known, as for an engine."""
    await under_way(tmp_path / "store.db")
    monkeypatch.setattr(REGISTRY, "_known", {})
    assert [result.reason for result in check_replay(export_histories(tmp_path / "store.db")).bad] == [
        ParkReason.UNKNOWN_CODE,
        ParkReason.UNKNOWN_CODE,
    ]
    REGISTRY.add(numbers(old))
    assert check_replay(export_histories(tmp_path / "store.db")).ok


async def test_codec_of_the_engine_is_used(tmp_path: Path) -> None:
    """Values that only the engine's own codec can read are read with it."""

    class Celsius:
        def __init__(self, degrees: int) -> None:
            self.degrees = degrees

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Celsius) and other.degrees == self.degrees

        __hash__ = None  # type: ignore[assignment]

    converter = make_converter()
    converter.register_unstructure_hook(Celsius, lambda value: value.degrees)
    converter.register_structure_hook(Celsius, lambda data, _: Celsius(data))

    def warm(at: Celsius) -> Durable[int]:
        yield from go.wait()
        return at.degrees

    warm.__annotations__["at"] = Celsius
    definition = workflow(name="replay-value-warm")(warm)
    async with WorkflowEngine(tmp_path / "store.db", workflows=[definition], codec=Codec(converter)) as engine:
        await engine.start(definition(Celsius(20)), id="w")
    histories = list(export_histories(tmp_path / "store.db"))
    assert check_replay(histories, [definition], codec=Codec(converter)).ok
    assert check_replay(histories, [definition]).bad[0].reason is ParkReason.UNREADABLE


async def test_function_that_is_not_a_workflow_is_refused() -> None:
    """A plain function in the list is refused before anything is replayed."""
    with pytest.raises(WrongType, match="@workflow functions"):
        check_replay([], [cast(Any, old)])


async def test_nothing_to_replay_is_fine() -> None:
    """An empty report is fine, and says that it is empty."""
    assert str(check_replay([], [])) == "0 workflows replayed, 0 do not fit this code"
    assert check_replay([], []).ok
