"""`runs.fork`: a new workflow that knows what another had learnt before a position, and goes on for itself."""

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
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, Refused, go, news, reader, rounds, waiter, work
from tests.engine.mending import check_restart, fork, refused, repair, retry, stored, told
from tests.engine.test_retry import fail_all

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED
ask = Event[int]("fork-ask")


@workflow(name="fork.steps")
def steps(first: int = 1) -> Durable[list[int]]:
    """Three activities in a row."""
    one = yield from work(first)
    two = yield from work(2)
    return [one, two, (yield from work(3))]


@workflow(name="fork.draws")
def draws() -> Durable[list[str]]:
    """Draws before, between and behind its steps."""
    drawn = [str(uuid())]
    yield from work(1)
    drawn += [str(uuid()), str(random("dice").random())]
    yield from work(2)
    drawn.append(str(uuid()))
    yield from work(3)
    return [*drawn, str(uuid())]


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (*EVERY, steps, draws)


def finish_all(desk: Desk, value: int = 0) -> None:
    """Whatever runs returns, until nothing runs any more."""
    while desk.activities:
        desk.finish(desk.activities[0], value)


def done(desk: Desk, *values: int) -> None:
    """The steps of `w` return one after the other."""
    for value in values:
        key = desk.record().key
        desk.finish(next(one for one in desk.activities if one.key == key), value)


@pytest.mark.parametrize(("position", "left"), [("0", [0, 0, 0]), ("1", [10, 0, 0]), ("2", [10, 20, 0])])
@pytest.mark.parametrize("state", ["running", "succeeded", "failed", "cancelled", "parked"])
def test_goes_on_from_there(position: str, left: list[int], state: str) -> None:
    """Whatever became of the first, the fork knows what was recorded before the position, and the first stands."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    done(desk, 10, 20)
    if state == "succeeded":
        done(desk, 30)
    elif state == "failed":
        fail_all(desk)
    elif state == "cancelled":
        desk.cancel()
    elif state == "parked":
        desk.restart(*EVERY)
        desk.state.registry.add(steps)
    if state in ("running", "parked", "cancelled") and position == "2":
        assert "nothing is recorded there; recorded are 0, 1" in str(refused(desk, lambda: fork(desk, position)))
        return
    before = stored(desk)["w"]
    fork(desk, position)
    assert stored(desk)["w"] == before
    assert [one.position for one in desk.activities if one.workflow_id == "f"] == [position]
    if state != "parked":
        check_restart(desk, *FLOWS)
    finish_all(desk)
    assert desk.result("f") == left
    assert told(desk, "f")[: int(position) + 1] == [*told(desk)[: int(position)], f"forked {position} ok"]


def test_what_was_started_with_it_is_kept() -> None:
    """Name, version, arguments and tags are those of the first; it has no parent, and its age is its own."""

    @workflow(name="fork.parent")
    def parent() -> Durable[list[int]]:
        return (yield from steps(7))

    desk = Desk(*FLOWS, parent)
    desk.start(parent(), tags=("blue",))
    desk.finish(desk.activities[0], 1)
    desk.advance(60)
    fork(desk, "0", id="w/0")
    source, forked = desk.record("w/0"), desk.record("f")
    assert (forked.name, forked.version, forked.input) == (source.name, source.version, source.input)
    assert (forked.parent_key, forked.parent_place, forked.depth) == (None, None, 0)
    assert (forked.created_at, forked.start_at) == (desk.clock.now(), source.start_at)
    assert [one.args for one in desk.activities if one.workflow_id == "f"] == [(7,)]
    finish_all(desk)
    assert desk.status() is WorkflowStatus.SUCCEEDED
    fork(desk, "0", id="w", new_id="g")
    assert desk.record("g").tags == ("blue",)
    assert desk.record("g/0").parent_key == desk.record("g").key


def test_refusals() -> None:
    """No such workflow, a taken id, a place without a record, a workflow that has learnt nothing, code that is gone."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    assert "nothing is recorded yet" in str(refused(desk, lambda: fork(desk, "0")))
    done(desk, 1)
    assert isinstance(refused(desk, lambda: fork(desk, "0", id="nobody")), WorkflowNotFound)
    assert isinstance(refused(desk, lambda: fork(desk, "0", new_id="w")), WorkflowAlreadyExists)
    error = refused(desk, lambda: fork(desk, "7"))
    assert isinstance(error, CannotFork)
    assert "nothing is recorded there; recorded are 0" in str(error)
    desk.restart(*EVERY)
    assert "fork.steps" in str(refused(desk, lambda: fork(desk, "0")))


def test_refusal_names_the_last_of_many_positions() -> None:
    """A long history is not read out in full."""

    @workflow(name="fork.many")
    def many() -> Durable[None]:
        for _ in range(30):
            yield from work(1)

    desk = Desk(many)
    desk.start(many())
    finish_all(desk)
    assert str(refused(desk, lambda: fork(desk, "99"))).endswith(
        "recorded are ..., " + ", ".join(map(str, range(18, 30)))
    )


def test_from_behind_a_cancellation_is_refused() -> None:
    """A fork would begin by cleaning up."""

    @workflow(name="fork.tidy")
    def tidy() -> Durable[None]:
        try:
            yield from go.wait()
        finally:
            yield from work(1)

    desk = Desk(tidy)
    desk.start(tidy())
    desk.cancel()
    finish_all(desk)
    assert "it was already being cancelled there; choose an earlier" in str(refused(desk, lambda: fork(desk, "1")))


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_draws_of_the_copied_part_are_the_first_ones_and_later_ones_its_own() -> None:
    """What was drawn before the last copied step is the same; behind it nothing is drawn twice."""
    desk = Desk(*FLOWS)
    desk.start(draws())
    finish_all(desk)
    for position in ("0", "1", "2"):
        fork(desk, position, new_id=f"f{position}")
        check_restart(desk, *FLOWS)
        finish_all(desk)
    first = desk.result()
    shared = {"f0": 0, "f1": 1, "f2": 3}
    for id, count in shared.items():
        found = desk.result(id)
        assert found[:count] == first[:count]
        assert not {*found[count:]} & {*first}


def test_fork_of_a_fork_draws_like_whom_it_copied() -> None:
    """Each part of a history follows from the id of the one who has lived it, also where both were cut at one place."""
    desk = Desk(*FLOWS)
    desk.start(draws())
    finish_all(desk)
    fork(desk, "1", new_id="f")
    finish_all(desk)
    for position, count in (("0", 0), ("1", 1), ("2", 3)):
        fork(desk, position, id="f", new_id=f"g{position}")
        check_restart(desk, *FLOWS)
        finish_all(desk)
        found = desk.result(f"g{position}")
        assert found[:count] == desk.result("f")[:count]
        assert not {*found[count:]} & {*desk.result("f"), *desk.result()}


def test_draws_behind_a_patch_are_its_own() -> None:
    """A note that is only looked up does not make the copied part any longer."""

    @workflow(name="fork.patched")
    def drawing() -> Durable[list[str]]:
        patched("first")
        drawn = [str(uuid())]
        yield from work(1)
        patched("second")
        drawn.append(str(uuid()))
        yield from work(2)
        return drawn

    desk = Desk(drawing)
    desk.start(drawing())
    finish_all(desk)
    fork(desk, "0", new_id="f0")
    fork(desk, "1", new_id="f1")
    finish_all(desk)
    first = desk.result()
    assert not {*desk.result("f0")} & {*first}
    assert desk.result("f1")[0] == first[0]
    assert desk.result("f1")[1] != first[1]


# --- branches, children, pauses, events ---------------------------------------------------------------------------


def test_inside_a_gather() -> None:
    """Branches that had ended before the position are copied, the others begin where they were."""

    def branch(number: int) -> Durable[int]:
        first = yield from work(number)
        return first + (yield from work(number))

    @workflow(name="fork.branches")
    def branches() -> Durable[list[int]]:
        return list((yield from gather(branch(1), branch(2))))

    desk = Desk(branches)
    desk.start(branches())
    for position in ("0.1.0", "0.0.0", "0.0.1", "0.1.1"):
        desk.finish(next(one for one in desk.activities if one.position == position), 1)
    fork(desk, "0.0.1")
    check_restart(desk, branches)
    assert {one.position for one in desk.activities} == {"0.0.1", "0.1.1"}
    finish_all(desk, 5)
    assert desk.result("f") == [6, 6]
    fork(desk, "0", new_id="whole")
    assert [one.position for one in desk.activities] == ["0.0.0", "0.1.0"]


def test_children_pauses_and_mail_are_its_own() -> None:
    """It starts children of its own, puts its own question, and takes what is sent to its id."""

    @workflow(name="fork.all")
    def everything() -> Durable[list[Any]]:
        yield from work(1)
        child, answer = yield from gather(waiter(), pause(returns=int, prompt="how many?"))
        return [child, answer, (yield from ask.wait())]

    desk = Desk(*FLOWS, everything)
    desk.start(everything())
    finish_all(desk)
    desk.send(ask, 99, to="f", allow_unstarted=True)
    desk.send(go, 1, to="w/1.0.0")
    fork(desk, "1")
    check_restart(desk, *FLOWS, everything)
    assert desk.record("f/1.0.0").parent_key == desk.record("f").key
    assert len(ids(desk)) == 2
    desk.send(go, 2, to="f/1.0.0")
    assert resume(desk, "1.1.0", 3, id="f") is None
    assert desk.result("f") == [2, 3, 99]
    assert desk.status() is SUSPENDED


@pytest.mark.parametrize("position", ["0", "1", "2"])
def test_broadcasts(position: str) -> None:
    """A broadcast that stands in the copied part is not taken again; one that was cut off is."""
    desk = Desk(*FLOWS)
    desk.start(reader(4))
    for number in (1, 1, 2):
        desk.send(news, number)
    fork(desk, position)
    check_restart(desk, *FLOWS)
    desk.send(news, 3)
    assert desk.result("f") == desk.result() == [1, 1, 2, 3]


def test_broadcast_that_was_not_cut_off() -> None:
    """Where only other things come behind the position the fork stands where the first stood."""

    @workflow(name="fork.hears")
    def hears() -> Durable[list[int]]:
        first = yield from news.wait()
        yield from work(1)
        return [first, (yield from news.wait())]

    desk = Desk(hears)
    desk.start(hears())
    desk.send(news, 1)
    finish_all(desk)
    fork(desk, "1")
    finish_all(desk)
    check_restart(desk, hears)
    desk.send(news, 2)
    assert desk.result("f") == desk.result() == [1, 2]


def test_of_what_has_just_begun_anew() -> None:
    """A step that was retried, or forked from, and has come to nothing yet can be forked from."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    done(desk, 1)
    fail_all(desk)
    retry(desk)
    fork(desk, "1")
    fork(desk, "1", id="f", new_id="g")
    check_restart(desk, *FLOWS)
    finish_all(desk, 5)
    assert [desk.result(id) for id in ("w", "f", "g")] == [[1, 5, 5]] * 3


def test_round_of_a_workflow_that_goes_on_and_on() -> None:
    """It is in the round of the first, and its children and draws are those of this round."""
    desk = Desk(*FLOWS)
    desk.start(rounds(2))
    desk.send(go, 1, to="w")
    desk.settle()
    desk.send(go, 2, to="w")
    desk.settle()
    assert desk.result() == 3
    assert "nothing is recorded yet" in str(refused(desk, lambda: fork(desk, "0")))

    @workflow(name="fork.rounds")
    def again(left: int) -> Durable[str]:
        yield from work(left)
        if left:
            raise again.continue_as(left - 1)
        yield from waiter()
        return str(uuid())

    desk = Desk(*FLOWS, again)
    desk.start(again(1))
    for _ in range(2):
        desk.finish(desk.activities[0], 1)
        desk.settle()
    desk.send(go, 1, to="w/1:1")
    fork(desk, "1")
    check_restart(desk, *FLOWS, again)
    assert desk.record("f").round == 1
    desk.send(go, 1, to="f/1:1")
    assert desk.result("f") != desk.result()


# --- with what operators have done ---------------------------------------------------------------------------------


def test_of_what_was_repaired_and_retried() -> None:
    """It is copied as it stands now: results that were replaced, without what is void."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    done(desk, 1)
    fail_all(desk)
    repair(desk, "0", 100)
    retry(desk)
    done(desk, 2, 3)
    assert desk.result() == [100, 2, 3]
    fork(desk, "2")
    check_restart(desk, *FLOWS)
    assert "repaired 0 ok" not in told(desk, "f")
    assert "activity 1 error" not in told(desk, "f")
    finish_all(desk)
    assert desk.result("f") == [100, 2, 0]
    fork(desk, "1", new_id="g")
    assert told(desk, "g") == ["activity 0 ok", "retried 1 ok", "forked 1 ok"]


def test_then_repaired_and_retried() -> None:
    """A fork can be repaired, fails and is retried like any other."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    done(desk, 1, 2, 3)
    fork(desk, "2")
    repair(desk, "0", 100, id="f")
    check_restart(desk, *FLOWS)
    desk.fail(desk.activities[0], Refused("no"))
    retry(desk, "f")
    check_restart(desk, *FLOWS)
    finish_all(desk, 7)
    assert (desk.result("f"), desk.result()) == ([100, 2, 7], [1, 2, 3])
