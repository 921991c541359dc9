"""The canonical workflows: each shows one promise of the engine, as small as possible."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from durable import (
    Cancelled,
    ChildWorkflowFailed,
    DeliveryMode,
    Durable,
    Event,
    OnParentClose,
    PauseCancelled,
    PauseExpired,
    Retry,
    Returned,
    activity,
    activity_info,
    fan_out,
    first_success,
    gather,
    now,
    pause,
    publish,
    race,
    saga,
    settle,
    sleep,
    sleep_until,
    spawn,
    workflow,
)
from durable.runner.definitions import WorkflowDef

go = Event[int]("go")
stay = Event[int]("stay")
fresh = Event[int]("fresh", delivery_mode=DeliveryMode.AFTER_WAIT)
news = Event[int]("news", consume_on_read=False)


class Declined(Exception):
    """The error of a failing activity."""


@activity(name="points.work", retry=Retry.never())
def work(number: int) -> int:
    """Succeeds at once."""
    return number * 10


@activity(name="points.slow", retry=Retry.never())
def slow(number: int) -> int:
    """Takes as long as the script says."""
    return number * 100


@activity(name="points.shaky", retry=Retry(max_attempts=3, first_delay=10, factor=2, jitter=0.1))
def shaky(failures: int) -> int:
    """Fails a few times, then succeeds."""
    attempt = activity_info().attempt
    if attempt <= failures:
        raise Declined(attempt)
    return attempt


@workflow(name="points.sequence")
def sequence(first: int = 1) -> Durable[list[int]]:
    """Does activities in a row."""
    done = []
    for number in range(first, first + 4):
        done.append((yield from work(number)))
    return done


@workflow(name="points.retried")
def retried(failures: int) -> Durable[list[Any]]:
    """Retries an activity, catches its final error, then does another activity."""
    try:
        first: Any = yield from shaky(failures)
    except Declined as error:
        first = list(error.args)
    second = yield from work(7)
    return [first, second]


@workflow(name="points.sleeper")
def sleeper() -> Durable[list[int]]:
    """Waits for three timers: a duration, an instant, and one that is over at once."""
    begun = now()
    yield from sleep(60)
    yield from work(1)
    yield from sleep_until(begun + timedelta(seconds=500))
    yield from sleep(0)
    return [int((now() - begun).total_seconds()) // 100]


@workflow(name="points.busy_waiter")
def busy_waiter() -> Durable[list[int]]:
    """Does a long activity, then takes two events, and a third that must be sent after its wait began."""
    yield from slow(1)
    first = yield from go.wait()
    second = yield from go.wait("k")
    yield from work(first)
    third = yield from fresh.wait()
    return [first, second, third]


@workflow(name="points.waiter")
def waiter(count: int = 1) -> Durable[list[int]]:
    """Takes some events in a row, each followed by an activity."""
    taken = []
    for _ in range(count):
        taken.append((yield from go.wait()))
        yield from work(taken[-1])
    return taken


@workflow(name="points.sender")
def sender(to: str) -> Durable[int]:
    """Sends to one workflow, does an activity, sends again, then sends to any waiter."""
    yield from go.send(1, to=to)
    number = yield from work(2)
    yield from go.send(2, to=to)
    yield from go.send(3)
    return number


@workflow(name="points.reader")
def reader(count: int) -> Durable[list[int]]:
    """Takes some broadcasts in a row."""
    taken = []
    for _ in range(count):
        taken.append((yield from news.wait()))
    return taken


@workflow(name="points.gatherer")
def gatherer() -> Durable[list[int]]:
    """Needs the results of everything at once."""
    first, second, third, _ = yield from gather(slow(1), shaky(1), go.wait(), sleep(100))
    fourth = yield from work(third)
    return [first, second, third, fourth]


@workflow(name="points.racer")
def racer() -> Durable[list[Any]]:
    """Races an event against a timer, twice: the loser of the first race does not affect the second."""
    first = yield from race(event=go.wait(), timer=sleep(100))
    second = yield from race(event=go.wait(), timer=sleep(200))
    yield from work(1)
    return [first.key, second.key]


def _branch(number: int) -> Durable[list[int]]:
    """A branch with several steps."""
    first = yield from work(number)
    won = yield from race(slow(number), go.wait(str(number)))
    yield from sleep(50)
    return [first, int(won.key)]


@workflow(name="points.nested")
def nested() -> Durable[list[Any]]:
    """Runs races inside a gather, in branches with several steps. One more branch loses as a whole."""
    first, second = yield from gather(_branch(1), race(_branch(2), _doomed()))
    return [first, second.key, second.value]


def _doomed() -> Durable[int]:
    yield from work(9)
    yield from stay.wait()
    return 9


@workflow(name="points.patient")
def patient() -> Durable[list[int]]:
    """Waits for an event with a timeout, too late and in time, then for an activity that is too slow."""
    first = yield from go.wait().within(60).or_default(-1)
    second = yield from go.wait().within(600)
    third = yield from slow(3).within(30).or_default(-3)
    return [first, second, third]


@workflow(name="points.parent")
def parent(first: int = 5) -> Durable[list[int]]:
    """Waits for a child, then does an activity."""
    done = yield from sequence(first)
    return [sum(done), (yield from work(1))]


@workflow(name="points.unlucky")
def unlucky(number: int) -> Durable[int]:
    """Fails after an activity."""
    done = yield from work(number)
    raise Declined(done)


@workflow(name="points.guardian")
def guardian() -> Durable[list[str]]:
    """Catches the failure of its child."""
    try:
        yield from unlucky(3)
    except ChildWorkflowFailed as error:
        yield from work(2)
        return [type(error.__cause__).__name__, str(error.__cause__)]
    return []


@workflow(name="points.deep")
def deep(level: int) -> Durable[int]:
    """Nests children; the innermost waits for an event."""
    if level == 0:
        taken = yield from go.wait()
        return (yield from work(taken))
    yield from work(level)
    below = yield from deep(level - 1)
    return below + level


@workflow(name="points.rounds")
def rounds(left: int, taken: list[int]) -> Durable[list[int]]:
    """Does two activities and takes an event in each round. The first activity is long."""
    yield from slow(left)
    yield from work(left)
    event = yield from go.wait()
    if left == 1:
        return [*taken, event]
    raise rounds.continue_as(left - 1, [*taken, event])


@workflow(name="points.tidy")
def tidy() -> Durable[int]:
    """Is cancelled while an activity and a child run, and cleans up in two steps."""
    try:
        yield from gather(slow(1), waiter())
    except Cancelled:
        yield from work(8)
        yield from sleep(20)
        yield from work(9)
        raise
    return 0


def _two_answers() -> Durable[int]:
    first = yield from pause(returns=int, prompt="first")
    yield from work(first)
    return first + (yield from pause(returns=int, prompt="second"))


@workflow(name="points.panel")
def panel() -> Durable[list[Any]]:
    """Asks questions in branches, one of which loses, then one that expires and one that is cancelled."""
    lost = race(answer=pause(returns=int, prompt="lost"), timer=sleep(100))
    single, pair, won = yield from gather(pause(returns=int, prompt="one"), _two_answers(), lost)
    answers: list[Any] = [single, pair, won.key]
    for expires_after in (50, None):
        try:
            answers.append((yield from pause(returns=int, prompt="more", expires_after=expires_after)))
        except (PauseExpired, PauseCancelled) as error:
            answers.append(type(error).__name__)
    yield from work(1)
    return answers


def _given_back(done: int) -> Durable[None]:
    """An undo with two steps and a sleep between them."""
    yield from work(done + 1)
    yield from sleep(30)
    yield from work(done + 2)


@workflow(name="points.undoer")
def undoer() -> Durable[None]:
    """Fails after all its steps. One undo has several steps, and one fails after some attempts."""
    yield from work(1).undo(work)
    yield from gather(work(2).undo(_given_back), work(3).undo(lambda _: shaky(3)))
    raise Declined(9)


def _rented(number: int) -> Durable[None]:
    """Does a step with an undo, then fails with an event."""
    yield from work(number).undo(_given_back)
    raise Declined((yield from go.wait()))


@workflow(name="points.renter")
def renter() -> Durable[list[Any]]:
    """One saga fails and is caught, another loses a race. Undos owed outside of them never run."""
    yield from work(1).undo(work)
    caught: list[Any] = []
    try:
        yield from saga(_rented(2))
    except Declined as error:
        caught += error.args
    won = yield from race(saga(_rented(5)), slow(7).undo(work))
    return [*caught, won.key]


@workflow(name="points.spawner")
def spawner() -> Durable[list[Any]]:
    """Spawns two children, waits for an event, then reads both results, one of them twice."""
    quick = yield from spawn(sequence(5))
    slow_one = yield from spawn(waiter())
    publish("spawned")
    taken = yield from go.wait()
    second, first = yield from gather(slow_one.result(), quick.result())
    publish([taken, second])
    return [taken, first, second, (yield from quick.result())]


@workflow(name="points.leaver")
def leaver() -> Durable[str]:
    """Spawns a kept child, a tied one, and one that it cancels itself; then it ends."""
    kept = yield from spawn(waiter())
    yield from spawn(tidy(), on_parent_close=OnParentClose.CANCEL)
    stopped = yield from spawn(waiter(), id="stopped")
    yield from work(1)
    yield from go.wait()
    yield from stopped.cancel("no need")
    return kept.id


@workflow(name="points.dynasty")
def dynasty(level: int) -> Durable[int]:
    """Nests pairs of children: one of each pair is tied and ends with its parent, the other is awaited."""
    if level == 0:
        return (yield from go.wait())
    yield from spawn(dynasty(level - 1), on_parent_close=OnParentClose.CANCEL)
    heir = yield from spawn(dynasty(level - 1))
    yield from work(level)
    return level + (yield from heir.result())


@workflow(name="points.teller")
def teller(left: int) -> Durable[str]:
    """Publishes its position: at the beginning of each round, after each step, and at the end."""
    publish([left, "begun"])
    yield from work(left)
    publish([left, "worked"])
    taken = yield from go.wait().within(100).or_default(-1)
    publish([left, taken])
    if left == 1:
        publish("done")
        return "done"
    raise teller.continue_as(left - 1)


@workflow(name="points.settler")
def settler() -> Durable[list[Any]]:
    """Settles everything at once: failures are values."""
    outcomes = yield from settle(shaky(3), slow(1), _branch(4), sleep(100))
    values = [outcome.value if isinstance(outcome, Returned) else list(outcome.error.args) for outcome in outcomes]
    return [*values[:3], (yield from work(5))]


def _late(number: int) -> Durable[int]:
    yield from sleep(80)
    return (yield from work(number))


@workflow(name="points.optimist")
def optimist() -> Durable[list[Any]]:
    """One branch fails and is skipped, one wins, and a child loses. The child's event is left for the next wait."""
    won = yield from first_success(bad=shaky(3), child=waiter(), good=_late(2))
    return [won.key, won.value, (yield from go.wait())]


def _item(number: int) -> Durable[list[int]]:
    first = yield from work(number)
    return [first, (yield from go.wait(str(number)))] if number % 2 else [first]


@workflow(name="points.spreader")
def spreader() -> Durable[list[Any]]:
    """Runs five branches, two at a time. The odd ones wait for an event."""
    done = yield from fan_out(_item, range(5), limit=2)
    return [*done, (yield from work(9))]


EVERY: tuple[WorkflowDef[Any, Any], ...] = (
    sequence, retried, sleeper, busy_waiter, waiter, reader, gatherer, racer, nested, patient, parent, unlucky,
    guardian, deep, rounds, tidy, panel, undoer, renter, spawner, leaver, dynasty, teller, settler, optimist,
    spreader, sender,
)  # fmt: skip
