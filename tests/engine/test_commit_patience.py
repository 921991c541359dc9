"""A failing commit is repeated for the whole of `commit_patience`, and the log says so."""

from __future__ import annotations

import pytest

from durable.engine.config import EngineConfig
from durable.errors import StorageUnavailable
from durable.testing.faults import Fault
from tests.engine.direct import call_of
from tests.engine.flows import waiter
from tests.engine.stepped import SteppedEngine


def broken(patience: float) -> SteppedEngine:
    """A coordinator whose store fails every commit."""
    stepped = SteppedEngine(EngineConfig(commit_patience=patience))
    stepped.backend.plan = dict.fromkeys(range(1, 1000), Fault.FAIL_BEFORE)
    return stepped


@pytest.mark.parametrize("patience", [0.005, 0.2, 2.0, 30.0])
def test_patience_is_used_to_its_end(patience: float) -> None:
    """The engine gives up after exactly the configured time."""
    stepped = broken(patience)
    began = stepped.clock.monotonic()
    with pytest.raises(StorageUnavailable):
        stepped.ask(call_of(waiter(), "w"))
    assert stepped.clock.monotonic() - began == pytest.approx(patience, abs=1e-5)


def test_patience_ends_with_a_try() -> None:
    """A store that recovers at the very end of the patience still takes the commit."""
    stepped = broken(2.0)
    with pytest.raises(StorageUnavailable):
        stepped.ask(call_of(waiter(), "w"))
    tries = stepped.backend.commits
    stepped = broken(2.0)
    stepped.backend.plan = dict.fromkeys(range(1, tries), Fault.FAIL_BEFORE)
    (answer,) = stepped.ask(call_of(waiter(), "w"))
    assert answer.error is None
    assert stepped.backend.last_batch() == 1


@pytest.mark.parametrize(("patience", "text"), [(0.2, "up to 0.2 s"), (0.005, "up to 0.005 s"), (30.0, "up to 30 s")])
def test_log_names_the_patience(caplog: pytest.LogCaptureFixture, patience: float, text: str) -> None:
    """The warning names the configured time, even if it is less than a second."""
    with pytest.raises(StorageUnavailable):
        broken(patience).ask(call_of(waiter(), "w"))
    assert text in caplog.text


def test_no_patience_is_one_try(caplog: pytest.LogCaptureFixture) -> None:
    """With a patience of 0, the first failure stops the engine, and the log promises no further try."""
    stepped = broken(0.0)
    with pytest.raises(StorageUnavailable):
        stepped.ask(call_of(waiter(), "w"))
    assert stepped.backend.commits == 1
    assert "tried again" not in caplog.text
