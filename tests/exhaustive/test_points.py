"""Every point at which something can go wrong in the canonical workflows, one after the other; none is left out.

A run without any fault says what must come out. Each test goes over all points of one script, and how many there are is
part of the claim, so that the set cannot shrink unseen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from durable import Delivered, Queued
from durable.backends.base import Backend
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.backends.sqlite import SqliteBackend
from durable.engine.config import EngineConfig
from durable.testing.faults import Fault, FaultyBackend
from tests.exhaustive import flows, flows_of_changes
from tests.exhaustive.endings import ENDINGS
from tests.exhaustive.records import check_whole, look, state, story
from tests.exhaustive.scripts import SCRIPTS as FIRST
from tests.exhaustive.scripts import Script
from tests.exhaustive.scripts_of_changes import SCRIPTS_OF_CHANGES
from tests.exhaustive.service import Service

SCRIPTS = (*FIRST, *SCRIPTS_OF_CHANGES)
EVERY = (*flows.EVERY, *flows_of_changes.EVERY)
CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER)
# One body in memory at a time: every step rebuilds it from its history.
TIGHT = EngineConfig(max_loaded_workflows=1)

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)


def in_memory() -> Backend:
    """A new store."""
    return MemoryBackend(MemoryStore())


@attrs.define(eq=False)
class Run:
    """A script from its beginning to its end, with the faults of a plan."""

    script: Script
    plan: Mapping[int, Fault] = attrs.field(factory=dict)
    fail_calls: tuple[int, ...] = ()
    make: Callable[[], Backend] = in_memory
    config: EngineConfig = attrs.field(factory=EngineConfig)
    # After which moment there is a restart, and whether it is an orderly one.
    restart_after: int | None = None
    is_clean: bool = True
    moments: int = 0
    service: Service = attrs.field(init=False)
    told: list[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        backend = FaultyBackend(self.make(), self.plan, fail_calls=self.fail_calls)
        self.service = Service(backend, EVERY, config=self.config)
        self.service.on_step = self._moment
        self.told = self.script.play(self.service)
        check_whole(backend.inner)

    def _moment(self) -> None:
        self.moments += 1
        if self.moments != self.restart_after:
            return
        self.service.on_step = lambda: None
        if self.script.starts > 1:
            look(self.service)
        before = state(self.service)
        if self.is_clean:
            self.service.stop()
        else:
            self.service.die()
        self.service.settle()
        assert state(self.service) == before, f"after moment {self.moments}"
        self.service.on_step = self._moment

    def outcome(self) -> dict[str, Any]:
        """What must be the same whatever went wrong: what is stored, and what the clients were told."""
        return {**story(self.service.backend.inner), "told": self.told}

    def close(self) -> None:
        """Let go of the store."""
        self.service.backend.close()


def crashing(script: Script, plans: Callable[[int], list[Mapping[int, Fault]]], **more: Any) -> int:
    """Runs with crashes: commit by commit, until a run has come to its end without one. How many there were."""
    expected = Run(script).outcome()
    points = 0
    for commit in itertools.count(1):
        for plan in plans(commit):
            run = Run(script, plan, **more)
            assert run.outcome() == expected, plan
            run.close()
            if run.service.crashes < len(plan):
                return points
            points += 1
    raise AssertionError("not reached")


@each_script
def test_crash_at_every_commit(script: Script) -> None:
    """The process ends before or after any one commit: the same records, replies and mail; nothing recorded reruns."""
    points = crashing(script, lambda commit: [{commit: fault} for fault in CRASHES])
    assert points >= 2 * script.commits


@pytest.mark.timeout(120)
@each_script
def test_two_crashes(script: Script) -> None:
    """The process ends at any two commits, with one body in memory at a time: the same outcome."""
    expected = Run(script).outcome()
    points = 0
    for first in range(1, script.commits + 1):
        for faults in itertools.product(CRASHES, CRASHES):
            for second in itertools.count(first + 1):
                run = Run(script, {first: faults[0], second: faults[1]}, config=TIGHT)
                assert run.outcome() == expected, run.plan
                if run.service.crashes < 2:
                    break
                points += 1
    assert points >= 2 * script.commits * (script.commits - 1)


@each_script
@pytest.mark.parametrize("fault", FAILURES, ids=["not stored", "stored"])
def test_failed_commit(script: Script, fault: Fault) -> None:
    """Any commit that is reported as failed, stored or not, ends in one: no activity twice, no reply lost."""
    clean = Run(script)
    for commit in range(1, clean.service.backend.commits + 1):
        run = Run(script, {commit: fault})
        assert run.outcome() == clean.outcome(), run.plan
        assert run.service.executed == clean.service.executed
        assert len(set(run.service.executed)) == len(run.service.executed) - script.again
        assert [call.answers for call in run.service.calls] == [1] * len(clean.service.calls)
        assert run.service.starts == script.starts
    assert clean.service.backend.commits >= script.commits


@each_script
@pytest.mark.parametrize("crashes", [0, 1], ids=["", "after a crash"])
def test_failed_store_call(script: Script, crashes: int) -> None:
    """Any one call of the store that fails, also in a recovery, is tried again or stops the engine in order."""
    expected = Run(script).outcome()
    plan = dict.fromkeys(range(script.commits // 2, script.commits // 2 + crashes), Fault.CRASH_AFTER)
    calls = Run(script, plan).service.backend.calls
    for number in range(1, calls + 1):
        run = Run(script, plan, fail_calls=(number,))
        assert run.service.backend.calls > number
        assert run.outcome() == expected, number
    assert calls >= script.store_calls


@each_script
@pytest.mark.parametrize("is_clean", [True, False], ids=["orderly", "crash"])
def test_restart_after_every_moment(script: Script, is_clean: bool) -> None:
    """After any step the state is the same before and after a restart, to the microsecond, and so is the end."""
    clean = Run(script)
    for moment in range(1, clean.moments + 1):
        run = Run(script, restart_after=moment, is_clean=is_clean)
        assert run.service.starts == script.starts + 1
        assert run.outcome() == clean.outcome(), moment
    assert clean.moments >= script.moments


@each_script
def test_restart_at_every_moment(script: Script) -> None:
    """An orderly restart after each and every step, and one body in memory at a time: the same outcome."""
    clean = Run(script, config=TIGHT)
    assert clean.outcome() == Run(script).outcome()
    service = Service(FaultyBackend(in_memory()), EVERY)

    def restart() -> None:
        service.stop()
        service.settle()

    service.on_step = restart
    told = script.play(service)
    assert {**story(service.backend.inner), "told": told} == clean.outcome()


@pytest.mark.parametrize("script", SCRIPTS[::4], ids=lambda script: script.name)
def test_crash_at_every_commit_of_a_file(script: Script, tmp_path: Path) -> None:
    """The same on SQLite files: the outcome of a run in memory, whatever commit the process ended at."""
    names = itertools.count()

    def in_file() -> Backend:
        return SqliteBackend(tmp_path / f"{next(names)}.db", synchronous="NORMAL")

    points = crashing(script, lambda commit: [{commit: fault} for fault in CRASHES], make=in_file)
    assert points >= 2 * script.commits


def test_number_of_points() -> None:
    """The scripts have, by what each test above claims of them, more than 3,000 points."""
    commits = sum(4 * script.commits for script in SCRIPTS)
    calls = sum(2 * script.store_calls for script in SCRIPTS)
    moments = sum(2 * script.moments for script in SCRIPTS)
    pairs = sum(2 * script.commits * (script.commits - 1) for script in SCRIPTS)
    assert len(SCRIPTS) >= 15
    assert commits + calls + moments >= 1_500
    assert commits + calls + moments + pairs >= 3_000


@each_script
def test_run_without_a_fault(script: Script) -> None:
    """The run that all others are compared with ends as it was written down beforehand."""
    found = Run(script).outcome()
    ends = {id: record[3] or record[1].value for id, record in found["workflows"].items()}
    left = [payload for *_, payload, _ in found["events"]]
    assert (ends, left, [letter[-1] for letter in found["letters"]]) == ENDINGS[script.name]


def test_progress_of_a_run_without_a_fault() -> None:
    """What the workflows have published last, and after which entry of which round, is as it was written down."""
    found = {script.name: Run(script).outcome()["progress"].get("w") for script in SCRIPTS}
    assert found["progress in rounds"] == [(2, 2, '"done"')]
    assert found["spawned children asked for later"] == [(0, 5, "[1,[2]]")]
    assert found["sequence"] == []


def test_clients_are_told_who_got_what() -> None:
    """Replies of the run without a fault: delivered where somebody waits, queued where not, refused where no answer."""
    told = {script.name: Run(script).told for script in SCRIPTS}
    assert told["targeted event after the wait"][1:] == [Delivered(("w",))] * 3
    assert told["untargeted event"][3:] == [Delivered(("a",)), Delivered(("b",)), Queued()]
    assert told["delayed start"][0] == Queued()
    _, first, *answers = told["pauses"]
    assert [prompt for _, _, prompt, _ in first] == ["one", "first", "lost"]
    assert [str(answer)[:13] for answer in answers] == [
        "",
        "CodecError(wh",
        "",
        "PauseNotFound",
        "",
        "[(6, '1', 'mo",
        "",
    ]
