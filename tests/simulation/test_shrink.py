"""A failing scenario is made smaller, and can be repeated from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.engine.state.events import Archive
from simulation import __main__ as command
from simulation.scenario import Scenario, Verb, make_scenario, scenario_to_text
from simulation.shrink import failure, shrink


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not recognise an event that is sent twice."""
    monkeypatch.setattr(Archive, "sent", lambda _self, _event_id: None)


def _failing() -> Scenario:
    """The first failing scenario with several events that are sent twice. Every new row changes what a seed means."""
    scenarios = [make_scenario(seed) for seed in range(50)]
    twice = [
        scenario
        for scenario in scenarios
        if sum(act.is_repeated and act.verb is Verb.SEND for act in scenario.acts) > 1
    ]
    return next(
        scenario for scenario in twice if (violation := failure(scenario)) is not None and violation.invariant == "I16"
    )


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("forgetful")
def test_failing_scenario_is_made_smaller() -> None:
    """A scenario in which an event is accepted twice shrinks to little more than that event."""
    scenario = _failing()
    small = shrink(scenario, "I16", tries=150)
    violation = failure(small)
    assert violation is not None
    assert violation.invariant == "I16"
    assert len(small.acts) < len(scenario.acts) / 4
    assert Verb.SEND in {act.verb for act in small.acts}


def test_scenario_that_does_not_fail_stays_as_it_is() -> None:
    """A scenario that does not fail is not shrunk."""
    scenario = make_scenario(0)
    assert shrink(scenario, "I16", tries=3) == scenario


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("forgetful")
def test_command_tells_how_to_repeat_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A violation is printed with its invariant and the command that repeats it, also for a file."""
    file = tmp_path / "scenario.json"
    file.write_text(scenario_to_text(shrink(_failing(), "I16", tries=30)))
    assert command.main(["--scenario", str(file)]) == 1
    said = capsys.readouterr().out
    assert "VIOLATION I16" in said
    assert f"python -m simulation --scenario {file}" in said


@pytest.mark.timeout(120)
def test_command_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A few seeds run in other processes, and their figures are added up."""
    assert command.main(["--seeds", "0:4", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "seeds                         4" in said
    assert "violations                    0" in said
