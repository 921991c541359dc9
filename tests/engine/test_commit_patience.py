"""How long a failing commit is repeated: for the whole of `commit_patience`, and the log says so."""

from __future__ import annotations

import pytest

from durable.engine.config import EngineConfig
from durable.errors import StorageUnavailable
from durable.testing.faults import Fault
from tests.engine.desk import call_of
from tests.engine.flows import waiter
from tests.engine.office import Office


def broken(patience: float) -> Office:
    """A coordinator whose store takes no commit."""
    office = Office(EngineConfig(commit_patience=patience))
    office.backend.plan = dict.fromkeys(range(1, 1000), Fault.FAIL_BEFORE)
    return office


@pytest.mark.parametrize("patience", [0.005, 0.2, 2.0, 30.0])
def test_patience_is_used_to_its_end(patience: float) -> None:
    """The engine gives up after exactly the time that was configured, not before the last pause that fits."""
    office = broken(patience)
    began = office.clock.monotonic()
    with pytest.raises(StorageUnavailable):
        office.ask(call_of(waiter(), "w"))
    assert office.clock.monotonic() - began == pytest.approx(patience, abs=1e-5)


def test_patience_ends_with_a_try() -> None:
    """A store that recovers in the last moment of the patience still takes the commit."""
    office = broken(2.0)
    with pytest.raises(StorageUnavailable):
        office.ask(call_of(waiter(), "w"))
    tries = office.backend.commits
    office = broken(2.0)
    office.backend.plan = dict.fromkeys(range(1, tries), Fault.FAIL_BEFORE)
    (answer,) = office.ask(call_of(waiter(), "w"))
    assert answer.error is None
    assert office.backend.last_batch() == 1


@pytest.mark.parametrize(("patience", "text"), [(0.2, "up to 0.2 s"), (0.005, "up to 0.005 s"), (30.0, "up to 30 s")])
def test_log_names_the_patience(caplog: pytest.LogCaptureFixture, patience: float, text: str) -> None:
    """The warning names the configured time, also when it is less than a second."""
    with pytest.raises(StorageUnavailable):
        broken(patience).ask(call_of(waiter(), "w"))
    assert text in caplog.text


def test_no_patience_is_one_try(caplog: pytest.LogCaptureFixture) -> None:
    """With a patience of 0 the first failure stops the engine, and no log promises another try."""
    office = broken(0.0)
    with pytest.raises(StorageUnavailable):
        office.ask(call_of(waiter(), "w"))
    assert office.backend.commits == 1
    assert "tried again" not in caplog.text
