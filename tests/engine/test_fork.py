"""`runs.fork`: a new workflow that copies another's history up to a position, and continues on its own."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CannotFork,
    Durable,
    Event,
    WorkflowAlreadyExists,
    WorkflowNotFound,
    WorkflowStatus,
    gather,
    patched,
    pause,
    random,
    uuid,
    workflow,
)
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import ids, resume
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, Refused, go, news, reader, rounds, waiter, work
from tests.engine.mending import check_restart, fork, outline, refused, repair, retry, stored
from tests.engine.test_retry import fail_all

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED
ask = Event[int]("fork-ask")


@workflow(name="fork.steps")
def steps(first: int = 1) -> Durable[list[int]]:
    """Does three activities in a row."""
    first_result = yield from work(first)
    second_result = yield from work(2)
    return [first_result, second_result, (yield from work(3))]


@workflow(name="fork.draws")
def draws() -> Durable[list[str]]:
    """Draws random values before, between and after its steps."""
    drawn = [str(uuid())]
    yield from work(1)
    drawn += [str(uuid()), str(random("dice").random())]
    yield from work(2)
    drawn.append(str(uuid()))
    yield from work(3)
    return [*drawn, str(uuid())]


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (*EVERY, steps, draws)


def finish_all(engine: DirectEngine, value: int = 0) -> None:
    """Let every activity return until none is left."""
    while engine.activities:
        engine.finish(engine.activities[0], value)


def done(engine: DirectEngine, *values: int) -> None:
    """The steps of `w` return in order."""
    for value in values:
        key = engine.record().key
        engine.finish(next(effect for effect in engine.activities if effect.key == key), value)


@pytest.mark.parametrize(("position", "left"), [("0", [0, 0, 0]), ("1", [10, 0, 0]), ("2", [10, 20, 0])])
@pytest.mark.parametrize("state", ["running", "succeeded", "failed", "cancelled", "parked"])
def test_goes_on_from_there(position: str, left: list[int], state: str) -> None:
    """Whatever happened to the source, the fork knows the entries before the position, and the source is unchanged."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    done(engine, 10, 20)
    if state == "succeeded":
        done(engine, 30)
    elif state == "failed":
        fail_all(engine)
    elif state == "cancelled":
        engine.cancel()
    elif state == "parked":
        engine.restart(*EVERY)
        engine.state.registry.add(steps)
    if state in ("running", "parked", "cancelled") and position == "2":
        assert "nothing is recorded there; recorded are 0, 1" in str(refused(engine, lambda: fork(engine, position)))
        return
    before = stored(engine)["w"]
    fork(engine, position)
    assert stored(engine)["w"] == before
    assert [effect.position for effect in engine.activities if effect.workflow_id == "f"] == [position]
    if state != "parked":
        check_restart(engine, *FLOWS)
    finish_all(engine)
    assert engine.result("f") == left
    assert outline(engine, "f")[: int(position) + 1] == [*outline(engine)[: int(position)], f"forked {position} ok"]


def test_what_was_started_with_it_is_kept() -> None:
    """Name, version, arguments and tags are those of the source. The fork has no parent and its own creation time."""

    @workflow(name="fork.parent")
    def parent() -> Durable[list[int]]:
        return (yield from steps(7))

    engine = DirectEngine(*FLOWS, parent)
    engine.start(parent(), tags=("blue",))
    engine.finish(engine.activities[0], 1)
    engine.advance(60)
    fork(engine, "0", id="w/0")
    source, forked = engine.record("w/0"), engine.record("f")
    assert (forked.name, forked.version, forked.input) == (source.name, source.version, source.input)
    assert (forked.parent_key, forked.parent_place, forked.depth) == (None, None, 0)
    assert (forked.created_at, forked.start_at) == (engine.clock.now(), source.start_at)
    assert [effect.args for effect in engine.activities if effect.workflow_id == "f"] == [(7,)]
    finish_all(engine)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    fork(engine, "0", id="w", new_id="g")
    assert engine.record("g").tags == ("blue",)
    assert engine.record("g/0").parent_key == engine.record("g").key


def test_refusals() -> None:
    """A fork needs an existing workflow, a free id, a position with an entry, and the code."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    assert "nothing is recorded yet" in str(refused(engine, lambda: fork(engine, "0")))
    done(engine, 1)
    assert isinstance(refused(engine, lambda: fork(engine, "0", id="nobody")), WorkflowNotFound)
    assert isinstance(refused(engine, lambda: fork(engine, "0", new_id="w")), WorkflowAlreadyExists)
    error = refused(engine, lambda: fork(engine, "7"))
    assert isinstance(error, CannotFork)
    assert "nothing is recorded there; recorded are 0" in str(error)
    engine.restart(*EVERY)
    assert "fork.steps" in str(refused(engine, lambda: fork(engine, "0")))


def test_refusal_names_the_last_of_many_positions() -> None:
    """The refusal names only the last positions of a long history."""

    @workflow(name="fork.many")
    def many() -> Durable[None]:
        for _ in range(30):
            yield from work(1)

    engine = DirectEngine(many)
    engine.start(many())
    finish_all(engine)
    assert str(refused(engine, lambda: fork(engine, "99"))).endswith(
        "recorded are ..., " + ", ".join(map(str, range(18, 30)))
    )


def test_from_a_position_after_a_cancel_is_refused() -> None:
    """A fork of a position after a cancel is refused: it would begin with the cleanup."""

    @workflow(name="fork.tidy")
    def tidy() -> Durable[None]:
        try:
            yield from go.wait()
        finally:
            yield from work(1)

    engine = DirectEngine(tidy)
    engine.start(tidy())
    engine.cancel()
    finish_all(engine)
    assert "it was already being cancelled there; choose an earlier" in str(refused(engine, lambda: fork(engine, "1")))


# --- random values ----------------------------------------------------------------------------------------------------


def test_draws_of_the_copied_part_are_kept_and_later_ones_differ() -> None:
    """Random values drawn before the last copied step are the same; later ones are new."""
    engine = DirectEngine(*FLOWS)
    engine.start(draws())
    finish_all(engine)
    for position in ("0", "1", "2"):
        fork(engine, position, new_id=f"f{position}")
        check_restart(engine, *FLOWS)
        finish_all(engine)
    first = engine.result()
    shared = {"f0": 0, "f1": 1, "f2": 3}
    for id, count in shared.items():
        drawn = engine.result(id)
        assert drawn[:count] == first[:count]
        assert not {*drawn[count:]} & {*first}


def test_fork_of_a_fork_keeps_the_draws_that_it_copied() -> None:
    """Each part of a history draws from the id of the workflow that ran it, even if both forks cut at one position."""
    engine = DirectEngine(*FLOWS)
    engine.start(draws())
    finish_all(engine)
    fork(engine, "1", new_id="f")
    finish_all(engine)
    for position, count in (("0", 0), ("1", 1), ("2", 3)):
        fork(engine, position, id="f", new_id=f"g{position}")
        check_restart(engine, *FLOWS)
        finish_all(engine)
        drawn = engine.result(f"g{position}")
        assert drawn[:count] == engine.result("f")[:count]
        assert not {*drawn[count:]} & {*engine.result("f"), *engine.result()}


def test_draws_behind_a_patch_are_its_own() -> None:
    """A patch entry, which is only looked up, does not extend the copied part."""

    @workflow(name="fork.patched")
    def drawing() -> Durable[list[str]]:
        patched("first")
        drawn = [str(uuid())]
        yield from work(1)
        patched("second")
        drawn.append(str(uuid()))
        yield from work(2)
        return drawn

    engine = DirectEngine(drawing)
    engine.start(drawing())
    finish_all(engine)
    fork(engine, "0", new_id="f0")
    fork(engine, "1", new_id="f1")
    finish_all(engine)
    first = engine.result()
    assert not {*engine.result("f0")} & {*first}
    assert engine.result("f1")[0] == first[0]
    assert engine.result("f1")[1] != first[1]


# --- branches, children, pauses, events ---------------------------------------------------------------------------


def test_inside_a_gather() -> None:
    """Branches that had ended before the position are copied, and the others begin where they were."""

    def branch(number: int) -> Durable[int]:
        first = yield from work(number)
        return first + (yield from work(number))

    @workflow(name="fork.branches")
    def branches() -> Durable[list[int]]:
        return list((yield from gather(branch(1), branch(2))))

    engine = DirectEngine(branches)
    engine.start(branches())
    for position in ("0.1.0", "0.0.0", "0.0.1", "0.1.1"):
        engine.finish(next(effect for effect in engine.activities if effect.position == position), 1)
    fork(engine, "0.0.1")
    check_restart(engine, branches)
    assert {effect.position for effect in engine.activities} == {"0.0.1", "0.1.1"}
    finish_all(engine, 5)
    assert engine.result("f") == [6, 6]
    fork(engine, "0", new_id="whole")
    assert [effect.position for effect in engine.activities] == ["0.0.0", "0.1.0"]


def test_children_pauses_and_mail_are_its_own() -> None:
    """A fork starts its own children, asks its own question, and takes the events sent to its id."""

    @workflow(name="fork.all")
    def everything() -> Durable[list[Any]]:
        yield from work(1)
        child, answer = yield from gather(waiter(), pause(returns=int, prompt="how many?"))
        return [child, answer, (yield from ask.wait())]

    engine = DirectEngine(*FLOWS, everything)
    engine.start(everything())
    finish_all(engine)
    engine.send(ask, 99, to="f", allow_unstarted=True)
    engine.send(go, 1, to="w/1.0.0")
    fork(engine, "1")
    check_restart(engine, *FLOWS, everything)
    assert engine.record("f/1.0.0").parent_key == engine.record("f").key
    assert len(ids(engine)) == 2
    engine.send(go, 2, to="f/1.0.0")
    assert resume(engine, "1.1.0", 3, id="f") is None
    assert engine.result("f") == [2, 3, 99]
    assert engine.status() is SUSPENDED


@pytest.mark.parametrize("position", ["0", "1", "2"])
def test_broadcasts(position: str) -> None:
    """A broadcast in the copied part is not taken again; one after it is."""
    engine = DirectEngine(*FLOWS)
    engine.start(reader(4))
    for number in (1, 1, 2):
        engine.send(news, number)
    fork(engine, position)
    check_restart(engine, *FLOWS)
    engine.send(news, 3)
    assert engine.result("f") == engine.result() == [1, 1, 2, 3]


def test_broadcast_that_was_not_cut_off() -> None:
    """If only other entries come after the position, the fork has read the same broadcasts as the source."""

    @workflow(name="fork.hears")
    def hears() -> Durable[list[int]]:
        first = yield from news.wait()
        yield from work(1)
        return [first, (yield from news.wait())]

    engine = DirectEngine(hears)
    engine.start(hears())
    engine.send(news, 1)
    finish_all(engine)
    fork(engine, "1")
    finish_all(engine)
    check_restart(engine, hears)
    engine.send(news, 2)
    assert engine.result("f") == engine.result() == [1, 2]


def test_of_a_step_that_was_just_retried() -> None:
    """A step that was retried or forked, and has no result yet, can be forked."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    done(engine, 1)
    fail_all(engine)
    retry(engine)
    fork(engine, "1")
    fork(engine, "1", id="f", new_id="g")
    check_restart(engine, *FLOWS)
    finish_all(engine, 5)
    assert [engine.result(id) for id in ("w", "f", "g")] == [[1, 5, 5]] * 3


def test_round_of_a_workflow_that_continues() -> None:
    """A fork is in the round of its source, and has its own children and draws in that round."""
    engine = DirectEngine(*FLOWS)
    engine.start(rounds(2))
    engine.send(go, 1, to="w")
    engine.settle()
    engine.send(go, 2, to="w")
    engine.settle()
    assert engine.result() == 3
    assert "nothing is recorded yet" in str(refused(engine, lambda: fork(engine, "0")))

    @workflow(name="fork.rounds")
    def again(left: int) -> Durable[str]:
        yield from work(left)
        if left:
            raise again.continue_as(left - 1)
        yield from waiter()
        return str(uuid())

    engine = DirectEngine(*FLOWS, again)
    engine.start(again(1))
    for _ in range(2):
        engine.finish(engine.activities[0], 1)
        engine.settle()
    engine.send(go, 1, to="w/1:1")
    fork(engine, "1")
    check_restart(engine, *FLOWS, again)
    assert engine.record("f").round == 1
    engine.send(go, 1, to="f/1:1")
    assert engine.result("f") != engine.result()


# --- after other repairs -----------------------------------------------------------------------------------------


def test_of_a_repaired_and_retried_workflow() -> None:
    """A fork copies the history as it stands now: with replaced results, and without void entries."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    done(engine, 1)
    fail_all(engine)
    repair(engine, "0", 100)
    retry(engine)
    done(engine, 2, 3)
    assert engine.result() == [100, 2, 3]
    fork(engine, "2")
    check_restart(engine, *FLOWS)
    assert "repaired 0 ok" not in outline(engine, "f")
    assert "activity 1 error" not in outline(engine, "f")
    finish_all(engine)
    assert engine.result("f") == [100, 2, 0]
    fork(engine, "1", new_id="g")
    assert outline(engine, "g") == ["activity 0 ok", "retried 1 ok", "forked 1 ok"]


def test_then_repaired_and_retried() -> None:
    """A fork can be repaired, can fail, and can be retried like any workflow."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    done(engine, 1, 2, 3)
    fork(engine, "2")
    repair(engine, "0", 100, id="f")
    check_restart(engine, *FLOWS)
    engine.fail(engine.activities[0], Refused("no"))
    retry(engine, "f")
    check_restart(engine, *FLOWS)
    finish_all(engine, 7)
    assert (engine.result("f"), engine.result()) == ([100, 2, 7], [1, 2, 3])
