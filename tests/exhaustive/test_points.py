"""Every point at which something can go wrong in the canonical workflows, one after the other; none is left out.

A run without a fault shows the right outcome. Each test visits all points of one script, and their number is part of
the claim, so that the set cannot shrink unnoticed.
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
    """A whole run of a script, with the faults of a plan."""

    script: Script
    plan: Mapping[int, Fault] = attrs.field(factory=dict)
    fail_calls: tuple[int, ...] = ()
    make: Callable[[], Backend] = in_memory
    config: EngineConfig = attrs.field(factory=EngineConfig)
    # After which moment there is a restart, and whether it is a clean one.
    restart_after: int | None = None
    is_clean: bool = True
    moments: int = 0
    service: Service = attrs.field(init=False)
    replies: list[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        backend = FaultyBackend(self.make(), self.plan, fail_calls=self.fail_calls)
        self.service = Service(backend, EVERY, config=self.config)
        self.service.on_step = self._moment
        self.replies = self.script.play(self.service)
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
        """What must be the same whatever goes wrong: the store, and the replies of the clients."""
        return {**story(self.service.backend.inner), "replies": self.replies}

    def close(self) -> None:
        """Close the store."""
        self.service.backend.close()


def crashing(script: Script, plans: Callable[[int], list[Mapping[int, Fault]]], **more: Any) -> int:
    """Run with a crash at each commit in turn, until a run ends without one. Returns the number of crash points."""
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
    """A crash before or after any one commit changes neither records, replies nor mail, and no recorded step reruns."""
    points = crashing(script, lambda commit: [{commit: fault} for fault in CRASHES])
    assert points >= 2 * script.commits


@pytest.mark.timeout(120)
@each_script
def test_two_crashes(script: Script) -> None:
    """The process ends at any two commits, with one body in memory at a time: the outcome is the same."""
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
    """A commit that is reported as failed, stored or not, happens once: no activity reruns, and no reply is lost."""
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
    """A failed store call, even during a recovery, is repeated or stops the engine cleanly."""
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
    """After any step, a restart changes neither the state, to the microsecond, nor the outcome."""
    clean = Run(script)
    for moment in range(1, clean.moments + 1):
        run = Run(script, restart_after=moment, is_clean=is_clean)
        assert run.service.starts == script.starts + 1
        assert run.outcome() == clean.outcome(), moment
    assert clean.moments >= script.moments


@each_script
def test_restart_at_every_moment(script: Script) -> None:
    """A clean restart after every step, with one body in memory at a time, has the same outcome."""
    clean = Run(script, config=TIGHT)
    assert clean.outcome() == Run(script).outcome()
    service = Service(FaultyBackend(in_memory()), EVERY)

    def restart() -> None:
        service.stop()
        service.settle()

    service.on_step = restart
    replies = script.play(service)
    assert {**story(service.backend.inner), "replies": replies} == clean.outcome()


@pytest.mark.parametrize("script", SCRIPTS[::4], ids=lambda script: script.name)
def test_crash_at_every_commit_of_a_file(script: Script, tmp_path: Path) -> None:
    """On SQLite files, a crash at any commit has the outcome of a run in memory."""
    names = itertools.count()

    def in_file() -> Backend:
        return SqliteBackend(tmp_path / f"{next(names)}.db", synchronous="NORMAL")

    points = crashing(script, lambda commit: [{commit: fault} for fault in CRASHES], make=in_file)
    assert points >= 2 * script.commits


def test_number_of_points() -> None:
    """The scripts have more than 3,000 points, counted as the tests above claim them."""
    commits = sum(4 * script.commits for script in SCRIPTS)
    calls = sum(2 * script.store_calls for script in SCRIPTS)
    moments = sum(2 * script.moments for script in SCRIPTS)
    pairs = sum(2 * script.commits * (script.commits - 1) for script in SCRIPTS)
    assert len(SCRIPTS) >= 15
    assert commits + calls + moments >= 1_500
    assert commits + calls + moments + pairs >= 3_000


@each_script
def test_run_without_a_fault(script: Script) -> None:
    """A run without a fault ends as it was written down."""
    outcome = Run(script).outcome()
    ends = {id: record[3] or record[1].value for id, record in outcome["workflows"].items()}
    left = [payload for *_, payload, _ in outcome["events"]]
    assert (ends, left, [letter[-1] for letter in outcome["letters"]]) == ENDINGS[script.name]


def test_progress_of_a_run_without_a_fault() -> None:
    """The last progress of the workflows, with its entry and round, is as it was written down."""
    progress = {script.name: Run(script).outcome()["progress"].get("w") for script in SCRIPTS}
    assert progress["progress in rounds"] == [(2, 2, '"done"')]
    assert progress["spawned children asked for later"] == [(0, 5, "[1,[2]]")]
    assert progress["sequence"] == []


def test_clients_are_told_who_got_what() -> None:
    """Clients get the right replies: delivered, queued or refused."""
    replies = {script.name: Run(script).replies for script in SCRIPTS}
    assert replies["targeted event after the wait"][1:] == [Delivered(("w",))] * 3
    assert replies["untargeted event"][3:] == [Delivered(("a",)), Delivered(("b",)), Queued()]
    assert replies["delayed start"][0] == Queued()
    _, first, *answers = replies["pauses"]
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
