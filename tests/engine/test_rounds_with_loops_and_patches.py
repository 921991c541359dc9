"""Rounds of a workflow with loops and `patched`: nothing of one round leaks into the next."""

from __future__ import annotations

import pytest

from durable import Break, Continue, Durable, Event, activity, gather, loop, patched, workflow
from durable.engine.operations import DescribeWorkflow, RecoverWorkflows, ResumeWorkflow, RunActivity
from tests.engine.agenda import schedule_of
from tests.engine.direct import DirectEngine, event_of

go = Event[int]("go")
other = Event[int]("other")
# Which code the process runs.
CODE = {"is_new": False}


@activity(name="both.work")
def work(number: int) -> int:
    """Never runs: the tests answer for it."""
    raise NotImplementedError


def _count(number: int) -> Durable[Continue[int] | Break[int]]:
    if number == 2:
        return Break(number)
    yield from work(number)
    return Continue(number + 1)


@workflow(name="both.rounds")
def rounds(left: int) -> Durable[int]:
    """Runs a loop that keeps no rounds, continues as a new round, then waits for an event and does an activity."""
    if left:
        yield from loop(_count, 1, keep=0)
        raise rounds.continue_as(0)
    taken = yield from go.wait()
    return taken + (yield from work(taken))


def _run(engine: DirectEngine) -> RunActivity:
    (effect,) = engine.activities
    return effect


def test_trimmed_entries_do_not_affect_the_next_round() -> None:
    """A loop trims its rounds and the workflow continues in one commit, which keeps the new round's first entry."""
    engine = DirectEngine(rounds, checks=False)
    engine.start(rounds(1))
    engine.batch(engine.answer(_run(engine), 0), event_of(go, 5, to="w"), DescribeWorkflow("w"))
    engine.settle()
    assert [(entry.seq, entry.name) for entry in engine.history()] == [(1, "go")]
    engine.restart(rounds)
    engine.finish(engine.activities[-1], 1)
    assert engine.result() == 6


@workflow(name="both.changed")
def changed(left: int) -> Durable[str]:
    """Continues once, then does a step that depends on the code."""
    if left:
        raise changed.continue_as(0)
    is_new = CODE["is_new"] and patched("change")
    yield from work(1 if is_new else 2)
    return "new" if is_new else "old"


@pytest.mark.parametrize("clean", [True, False])
def test_a_round_that_began_with_the_old_code_keeps_it(clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the code changes while the first activity of a round runs, the round keeps the old code."""
    engine = DirectEngine(changed, checks=False)
    engine.start(changed(1))
    engine.settle()
    assert _run(engine).args == (2,)
    monkeypatch.setitem(CODE, "is_new", True)
    engine.restart(changed, clean=clean)
    assert _run(engine).args == (2,)
    engine.finish(_run(engine), 0)
    assert engine.result() == "old"


def test_a_round_that_begins_with_the_new_code_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round asks `patched` again, even in the process that ran the round before."""
    monkeypatch.setitem(CODE, "is_new", True)
    engine = DirectEngine(changed, checks=False)
    engine.start(changed(1))
    engine.settle()
    assert _run(engine).args == (1,)
    engine.restart(changed)
    engine.finish(_run(engine), 0)
    assert engine.result() == "new"


def test_a_scheduled_run_takes_the_new_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of a tick is stored before its body begins, and still takes the new code."""
    monkeypatch.setitem(CODE, "is_new", True)
    engine = DirectEngine(changed, checks=False)
    engine.do(schedule_of(changed(0), "s"))
    engine.advance(70)
    assert _run(engine).args == (1,)
    engine.restart(changed)
    engine.finish(_run(engine), 0)
    assert engine.result("s@2031-05-17T12:01:00+00:00") == "new"


@workflow(name="both.timed")
def timed(is_first: bool) -> Durable[tuple[int, int]]:
    """The second round has a deadline at the instant of its start."""
    if is_first:
        yield from go.wait()
        raise timed.continue_as(False)
    number = 2 if CODE["is_new"] and patched("better") else 1
    return (yield from gather(other.wait().within(0), work(number)))


def test_next_round_with_a_deadline_at_its_start_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a round is not taken for a delayed start: it keeps its code."""
    engine = DirectEngine(timed)
    engine.start(timed(True))
    engine.clock.advance(60)
    engine.do(event_of(go, 1))
    # Without the timer, which is due at once: the process ends before it fires.
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.record().wake_at == engine.record().start_at
    monkeypatch.setitem(CODE, "is_new", True)
    engine.restart(timed, recover=False)
    engine.do(RecoverWorkflows())
    assert [effect.args for effect in engine.activities] == [(1,)]
