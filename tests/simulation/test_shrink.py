"""A failing scenario is made smaller, and can be run again from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.engine.state.archive import Archive
from simulation import __main__ as command
from simulation.scenario import Scenario, Verb, make_scenario, scenario_to_text
from simulation.shrink import failure, shrink


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not know an event which is sent a second time."""
    monkeypatch.setattr(Archive, "sent", lambda _self, _event_id: None)


def _failing() -> Scenario:
    """The first scenario with several events that are sent twice; what a seed means changes with every new row."""
    scenarios = [make_scenario(seed) for seed in range(50)]
    twice = [one for one in scenarios if sum(act.is_repeated and act.verb is Verb.SEND for act in one.acts) > 1]
    return next(one for one in twice if (found := failure(one)) is not None and found.invariant == "I16")


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("forgetful")
def test_failing_scenario_is_made_smaller() -> None:
    """What is left of a scenario in which an event is accepted twice is little more than that event."""
    scenario = _failing()
    small = shrink(scenario, "I16", tries=150)
    found = failure(small)
    assert found is not None
    assert found.invariant == "I16"
    assert len(small.acts) < len(scenario.acts) / 4
    assert Verb.SEND in {act.verb for act in small.acts}


def test_scenario_that_does_not_fail_stays_as_it_is() -> None:
    """There is nothing to cut where nothing fails."""
    scenario = make_scenario(0)
    assert shrink(scenario, "I16", tries=3) == scenario


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("forgetful")
def test_command_tells_how_to_repeat_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A violation is printed with its invariant and the command that shows it again, also from a file."""
    file = tmp_path / "scenario.json"
    file.write_text(scenario_to_text(shrink(_failing(), "I16", tries=30)))
    assert command.main(["--scenario", str(file)]) == 1
    said = capsys.readouterr().out
    assert "VIOLATION I16" in said
    assert f"python -m simulation --scenario {file}" in said


@pytest.mark.timeout(120)
def test_command_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A few seeds in processes of their own, and the figures of all of them."""
    assert command.main(["--seeds", "0:4", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "seeds                         4" in said
    assert "violations                    0" in said
