"""Replay of histories with more than steps: answers of `patched`, rounds of loops, and repairs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from durable import (
    Break,
    Continue,
    Durable,
    Event,
    NonRetryable,
    ParkReason,
    SyncWorkflowEngine,
    WorkflowFailed,
    activity,
    loop,
    patched,
    removed,
    workflow,
)
from durable.model.records import EntryKind
from durable.runner.definitions import REGISTRY, WorkflowDef
from durable.testing import Fit, check_replay, export_histories, load_histories, save_histories
from tests.cli.kit import run
from tests.scenarios.kit import SOON

go = Event[int]("mended-go")
is_up: list[bool] = []
KINDS = {EntryKind.PATCH, EntryKind.LOOP, EntryKind.REPAIRED, EntryKind.RETRIED, EntryKind.FORKED}


@activity(name="mended-double")
async def double(number: int) -> int:
    """Doubles on its second attempt."""
    if number < 0 and not is_up:
        is_up.append(True)
        raise NonRetryable("down")
    return 2 * number


def _round(number: int) -> Durable[Continue[int] | Break[int]]:
    number = yield from double(number)
    return Continue(number) if abs(number) < 100 else Break(number)


def flow(code: str) -> WorkflowDef[[int], int]:
    """Rounds, a step and an event, under one of several codes."""

    @workflow(name="mended-flow")
    def body(number: int) -> Durable[int]:
        number = yield from loop(_round, number, keep=1)
        if code != "never asked" and patched("more"):
            number += 1
        if code == "without":
            yield from removed("mended-double")
        elif code == "misspelt":
            yield from removed("mended-duoble")
        else:
            number = yield from double(number)
        if code == "broken" and number > 0:
            raise LookupError("a bug")
        return number + (yield from go.wait())

    return body


def _until_it_waits(engine: SyncWorkflowEngine, id: str) -> None:
    while not any(wait.kind == "event" for wait in engine.runs.describe(id).waits):
        pass


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rounds and an answer, a repaired one, a retried one, a fork, and a fork of the fork."""
    path = tmp_path_factory.mktemp("mended") / "store.db"
    with SyncWorkflowEngine(path, workflows=[flow("first")]) as engine:
        for id, number in (("plain", 1), ("repaired", 1), ("retried", -1)):
            handle = engine.start(flow("first")(number), id=id)
            if id == "retried":
                with pytest.raises(WorkflowFailed):
                    handle.result(timeout=SOON)
                engine.runs.retry(id)
            _until_it_waits(engine, id)
        engine.runs.repair("repaired", "1", 1000, "wrong")
        engine.runs.fork("repaired", "1", new_id="forked")
        _until_it_waits(engine, "forked")
        engine.runs.fork("forked", "1", new_id="again")
        _until_it_waits(engine, "again")
        histories = [engine.runs.history(summary.id) for summary in engine.runs.list()]
        assert {entry.kind for history in histories for entry in history} >= KINDS
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return Path(shutil.copy(made, tmp_path / "store.db"))


@pytest.mark.parametrize("code", ["first", "never asked", "without"])
def test_code_that_fits(store: Path, tmp_path: Path, code: str) -> None:
    """Every history fits the code that it ran with, the code without the question, and the code without the step."""
    histories = list(export_histories(store))
    report = check_replay(histories, [flow(code)])
    assert report.ok, report
    assert len(report.results) == 5
    save_histories(histories, tmp_path / "kept")
    kept = check_replay(load_histories(tmp_path / "kept"), [flow(code)])
    assert {result.id: result for result in kept.results} == {result.id: result for result in report.results}


def test_code_that_does_not_fit(store: Path) -> None:
    """The report predicts for each history what an engine does with it."""
    report = check_replay(export_histories(store), [flow("misspelt")])
    assert {result.reason for result in report.bad} == {ParkReason.DIVERGED}
    assert len(report.bad) == 5
    assert "- recorded: activity mended-double\n  + code asks: removed mended-duoble" in str(report)
    with SyncWorkflowEngine(store, workflows=[flow("misspelt")]) as engine:
        for result in report.bad:
            description = engine.runs.describe(result.id)
            assert description.problem == result.detail


def test_code_that_fails(store: Path) -> None:
    """Only histories whose values make the code fail are reported, and repaired values count."""
    report = check_replay(export_histories(store), [flow("broken")])
    fits = {result.id: result.fit for result in report.results}
    failing = dict.fromkeys(("plain", "repaired", "forked", "again"), Fit.FAILS)
    assert fits == {**failing, "retried": Fit.FITS}


def test_runs_continue_after_the_check(store: Path) -> None:
    """After the check every run ends with its current values."""
    check_replay(export_histories(store), [flow("first")])
    results: dict[str, Any] = {}
    with SyncWorkflowEngine(store, workflows=[flow("first")]) as engine:
        for id in ("plain", "repaired", "retried", "forked", "again"):
            engine.send_event(go, 0, to=id)
            results[id] = engine.handle(id).result(timeout=SOON)
    assert results == {"plain": 258, "repaired": 1000, "retried": -254, "forked": 258, "again": 258}


MODULE = """
from tests.cli.test_check_replay_histories import flow
ALL = [flow("{code}")]
"""


@pytest.mark.parametrize(("code", "ended"), [("first", 0), ("without", 0), ("misspelt", 1)])
def test_command(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    code: str, ended: int,
) -> None:  # fmt: skip
    """The command reports the same, with its exit code and both sides."""
    monkeypatch.setattr(REGISTRY, "_known", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "mended_at_hand", raising=False)
    (tmp_path / "mended_at_hand.py").write_text(MODULE.format(code=code))
    ran = run(capsys, "check-replay", store, "--workflows", "mended_at_hand:ALL")
    assert ran.code == ended
    assert ("removed mended-duoble" in ran.out + ran.err) is (ended == 1)
