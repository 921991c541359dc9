"""Bad inputs are refused where they enter, with a clear message and nothing written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from durable import Durable, DurableError, WorkflowEngine, WorkflowFailed, workflow
from tests.bad_inputs import table
from tests.bad_inputs.flows import go, waiter
from tests.bad_inputs.table import BODIES, CALLS, DEFINITIONS, PATHS, Case
from tests.scenarios.kit import SOON, contents

# A message is for people: whatever the input was, it must not fill the screen.
LONGEST = 1_000


def _check(error: BaseException, case: Case) -> None:
    assert type(error) is case.error
    assert isinstance(error, DurableError)
    message = str(error)
    assert [part for part in case.says if part not in message] == [], message
    assert len(message) < LONGEST


@pytest.mark.anyio
@pytest.mark.parametrize("case", CALLS, ids=str)
async def test_call_is_refused_and_nothing_is_written(tmp_path: Path, case: Case) -> None:
    """A bad argument gets our error that names it, and neither a row of the store nor its batch number changes."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file) as engine:
        await engine.start(waiter(), id="waits")
        ended = await engine.start(waiter(), id="ended")
        await engine.send_event(go, 1, to="ended", event_id="used")
        await ended.result(timeout=SOON)
        before = contents(file)
        with pytest.raises(case.error) as caught:
            await case.act(engine)
        _check(caught.value, case)
        assert contents(file) == before
        await engine.send_event(go, 2, to="waits")
        assert await engine.handle("waits").result(timeout=SOON) == 2


@pytest.mark.parametrize("case", DEFINITIONS, ids=str)
def test_definition_is_refused(case: Case) -> None:
    """A senseless definition is refused when it is written down, not when it is first used."""
    with pytest.raises(case.error) as caught:
        case.act()
    _check(caught.value, case)


@pytest.mark.anyio
@pytest.mark.parametrize("case", BODIES, ids=str)
async def test_bad_step_fails_its_workflow(case: Case) -> None:
    """A senseless step raises our error in the body and records nothing, and the engine keeps working."""

    @workflow(name="bad.body")
    def body() -> Durable[Any]:
        return (yield from case.act())

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(body(), id="a")).result(timeout=SOON)
        assert caught.value.__cause__ is not None
        _check(caught.value.__cause__, case)
        assert await engine.runs.history("a") == []


@pytest.mark.anyio
@pytest.mark.parametrize("case", PATHS, ids=str)
async def test_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    """A name that is not a file is refused with what to write instead, and no such file is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(case.error) as caught:
        async with WorkflowEngine(case.act()):
            pass
    _check(caught.value, case)
    assert os.listdir() == []


def test_every_number_has_its_place() -> None:
    """Each of the 64 numbers is in a table, has its own test, or is listed as absent, with the reason."""
    in_tables = {case.number for case in (*CALLS, *DEFINITIONS, *BODIES, *PATHS)}
    sources = (path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = [name for text in sources for name in re.findall(r"def test((?:_f\d+)+)_", text)]
    in_tests = {int(number) for name in names for number in re.findall(r"\d+", name)}
    assert not (in_tables | in_tests) & set(table.ABSENT)
    assert in_tables | in_tests | set(table.ABSENT) == set(range(1, 65))
    assert all(table.ABSENT.values())
