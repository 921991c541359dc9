"""The decorators: what they accept, the names they give, and the calls that definitions make."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from durable.errors import DuplicateWorkflow, InvalidValue, WrongType
from durable.model.clock import SECOND
from durable.model.records import DeliveryMode
from durable.model.retry import Retry
from durable.runner.combinators import gather
from durable.runner.definitions import REGISTRY, ActivityCall, Durable, WorkflowDef, activity, call, workflow
from durable.runner.events import Event, event_key
from durable.runner.ops import sleep
from durable.runner.results import ContinueAs
from tests.runner.builders import a_session, activity_ok, charge, opened, run, suspended, timer_fired, value_of


def plain(a: int, b: int = 2) -> int:
    """A plain function."""
    return a + b


async def async_plain(a: int) -> int:
    """A plain coroutine function."""
    return a


def numbers() -> Iterator[int]:
    """A generator function."""
    yield 1


async def async_numbers() -> AsyncIterator[int]:
    """An asynchronous generator function."""
    yield 1


class Printer:
    """A callable object and its methods."""

    def __call__(self, text: str) -> str:
        return text

    def show(self, text: str) -> str:
        """A method."""
        return text


# --- activities ---------------------------------------------------------------------------------------------------


def test_activity_keeps_the_plain_function() -> None:
    """`.fn` is the original function with its docstring, and the definition knows whether it is asynchronous."""
    made, async_made = activity(plain), activity(async_plain)
    assert made.fn is plain
    assert made.fn(1) == 3
    assert made.__doc__ == "A plain function."
    assert (made.is_async, async_made.is_async) == (False, True)
    assert (made.name, made.label, repr(made)) == ("plain", "activity plain", "<activity plain>")


def test_activity_call_is_a_value() -> None:
    """Calling an activity makes a call and does not run the function."""
    made = activity(plain)(1, b=5)
    assert isinstance(made, ActivityCall)
    assert (made.args, made.kwargs, str(made), made.name) == ((1,), {"b": 5}, "plain(...)", "plain")


def test_activity_settings_are_kept() -> None:
    """Name, retry policy and timeout are kept, and the defaults are the documented ones."""
    made = activity(name="pay", retry=Retry.never(), timeout=1.5)(plain)
    assert (made.name, made.retry, made.timeout_us) == ("pay", Retry.never(), 1_500_000)
    default = activity(plain)
    assert (default.retry, default.timeout_us) == (Retry(), None)


def test_activity_options_give_a_copy() -> None:
    """`options` changes the given settings, keeps the others, and does not change the original."""
    first = activity(name="pay", retry=Retry.never(), timeout=timedelta(seconds=3))(plain)
    second = first.options(name="other")
    third = second.options(retry=Retry(max_attempts=9), timeout=4)
    assert (second.name, second.retry, second.timeout_us) == ("other", Retry.never(), 3 * SECOND)
    assert (third.name, third.retry.max_attempts, third.timeout_us) == ("other", 9, 4 * SECOND)
    assert (first.name, first.timeout_us, third.fn) == ("pay", 3 * SECOND, plain)
    assert activity(plain).options().timeout_us is None


def test_activity_name_is_the_qualified_one() -> None:
    """A function is named by its qualified name without the enclosing function, an object by its class."""

    def nested() -> None: ...

    names = [activity(fn).name for fn in (nested, Printer.show, Printer().show, Printer(), max)]
    assert names == ["nested", "Printer.show", "Printer.show", "Printer", "max"]


@pytest.mark.parametrize("timeout", [0, timedelta(), -1, float("nan"), float("inf")])
def test_activity_refuses_a_senseless_timeout(timeout: Any) -> None:
    """A timeout must be longer than zero and finite, in `options` too."""
    for make in (activity(name="pay", timeout=timeout), lambda fn: activity(fn).options(timeout=timeout)):
        with pytest.raises(InvalidValue, match="timeout"):
            make(plain)


@pytest.mark.parametrize("fn", [5, None, "plain", numbers, async_numbers])
def test_activity_must_be_a_plain_function(fn: Any) -> None:
    """An activity is a callable, but not a generator function or an asynchronous generator function."""
    with pytest.raises(WrongType, match="activity"):
        activity(name="x")(fn)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "\ud800", 5])
@pytest.mark.parametrize("make", [lambda name: activity(name=name)(plain), lambda name: call(plain, 1, name=name)])
def test_activity_refuses_a_senseless_name(make: Callable[[Any], Any], name: Any) -> None:
    """A name is a text that every store can hold."""
    with pytest.raises((InvalidValue, WrongType), match="activity name"):
        make(name)


def test_activity_of_a_lambda_needs_a_name() -> None:
    """A lambda has no stable name."""
    with pytest.raises(InvalidValue, match="give name="):
        activity(lambda: 1)
    with pytest.raises(InvalidValue, match="give name="):
        call(lambda: 1)  # type: ignore[unused-awaitable]
    assert activity(name="one")(lambda: 1).name == "one"


def test_call_runs_a_plain_function_in_place() -> None:
    """`call` makes an activity of any function, with its own or a given name and with the given settings."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        first = yield from call(plain, 1, b=3)
        second = yield from call(lambda: 5, name="five", retry=Retry.never(), timeout=2)
        return first, second

    session = a_session(body)
    [wait] = suspended(session.start()).opened
    assert (str(wait), wait.args, dict(wait.kwargs)) == ("activity plain", (1,), {"b": 3})
    [wait] = suspended(session.feed(activity_ok(1, "0", "plain", 4))).opened
    assert isinstance(wait.op, ActivityCall)
    assert (wait.op.definition.retry, wait.op.definition.timeout_us) == (Retry.never(), 2 * SECOND)
    assert value_of(session.feed(activity_ok(2, "1", "five", 5))) == (4, 5)


# --- workflows ----------------------------------------------------------------------------------------------------


@workflow
def module_level(amount: int) -> Durable[int]:
    """A workflow at module level."""
    return (yield from charge(amount))


def test_workflow_at_module_level_is_registered() -> None:
    """A module-level workflow is registered by name and version, and its plain function is kept."""
    assert REGISTRY.get("module_level", 1) is module_level
    assert module_level.__doc__ == "A workflow at module level."
    assert module_level.fn.__name__ == "module_level"
    assert module_level.origin == f"{__name__}.module_level"
    assert repr(module_level) == "<workflow module_level version 1>"


def test_workflow_that_is_nested_is_not_registered() -> None:
    """A nested workflow needs a name, and is not registered."""

    def nested() -> Durable[None]:
        yield from sleep(1)

    with pytest.raises(InvalidValue, match="is nested, so it has no stable name; give name="):
        workflow(nested)
    made = workflow(name="nested workflow")(nested)
    assert made not in list(REGISTRY)


def test_workflow_that_is_a_lambda_needs_a_name() -> None:
    """A lambda with a yield is a generator function, but has no stable name."""
    with pytest.raises(InvalidValue, match="give name="):
        workflow(lambda: (yield sleep(1)))  # type: ignore[arg-type, return-value]


def test_workflow_registered_twice_is_refused() -> None:
    """Two functions cannot have the same name and version; another version is another workflow."""

    def other() -> Durable[None]:
        yield from sleep(1)

    other.__qualname__ = "other_module_level"
    with pytest.raises(DuplicateWorkflow):
        workflow(name="module_level")(other)
    newer = workflow(name="module_level", version=2)(other)
    assert REGISTRY.get("module_level", 2) is newer
    assert REGISTRY.get("module_level", 1) is module_level


@pytest.mark.parametrize("fn", [plain, lambda: 1, async_numbers, 5, Printer(), functools.partial(plain, 1)])
def test_workflow_must_be_a_generator_or_coroutine_function(fn: Any) -> None:
    """A plain function, an asynchronous generator or a non-function is refused; the message shows both valid forms."""
    with pytest.raises(WrongType, match=r"'yield from'.*'async def'"):
        workflow(name="w")(fn)


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", None])
def test_workflow_version_is_a_number_from_one_up(version: Any) -> None:
    """An invalid version is refused."""
    with pytest.raises(InvalidValue, match="version must be an int of at least 1"):
        workflow(name="w", version=version)(module_level.fn)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "\ud800", 5])
def test_workflow_refuses_a_senseless_name(name: Any) -> None:
    """A name is a text that every store can hold."""
    with pytest.raises((InvalidValue, WrongType), match="workflow name"):
        workflow(name=name)(module_level.fn)


def test_workflow_call_with_id_is_the_same_call() -> None:
    """`with_id` sets the child's id and nothing else, and marks the original call as used."""

    @workflow(name="w")
    def body() -> Durable[int]:
        return (yield from module_level(3).with_id("child-1"))

    made = module_level(3)
    assert (made.child_id, str(made)) == (None, "module_level(...)")
    session = a_session(body)
    [wait] = suspended(session.start()).opened
    assert (wait.op.child_id, wait.input) == ("child-1", '{"amount":3}')  # type: ignore[attr-defined]
    for bad in ("", "x" * 256, 5):
        with pytest.raises((InvalidValue, WrongType), match="child workflow id"):
            module_level(3).with_id(bad)  # type: ignore[arg-type, unused-awaitable]


@pytest.mark.parametrize("flavour", ["generator", "async def"])
def test_continue_as_ends_with_the_next_call(flavour: str) -> None:
    """`raise wf.continue_as(...)` ends the session with the next call, of this workflow or another."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from gather(sleep(1))
        raise module_level.continue_as(amount=7)

    @workflow(name="w")
    async def async_body() -> None:
        await gather(sleep(1))
        raise module_level.continue_as(amount=7)

    definition: WorkflowDef[[], None] = body if flavour == "generator" else async_body
    result = run(definition, timer_fired(1, "0.0.0"))
    assert isinstance(result, ContinueAs)
    assert (result.call.definition, result.call.kwargs) == (module_level, {"amount": 7})


# --- events -------------------------------------------------------------------------------------------------------


def test_event_knows_its_payload_type_and_delivery() -> None:
    """The payload type is the subscript, or `Any`; delivery settings are kept."""
    typed = Event[int]("paid", consume_on_read=False, delivery_mode=DeliveryMode.AFTER_WAIT, expire_after=2)
    assert (typed.payload_type, Event("x").payload_type) == (int, Any)
    assert (typed.consume_on_read, typed.delivery_mode, typed.expire_after_us) == (
        False, DeliveryMode.AFTER_WAIT, 2 * SECOND,
    )  # fmt: skip
    assert Event[int]("paid").expire_after_us is None


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "\ud800", 5])
def test_event_refuses_a_senseless_name_or_key(name: Any) -> None:
    """Names and keys are texts that every store can hold; the key may be omitted."""
    with pytest.raises((InvalidValue, WrongType), match="event name"):
        Event[int](name)
    with pytest.raises((InvalidValue, WrongType), match="event key"):
        event_key(name)
    assert event_key(None) == ""


def test_event_refuses_senseless_settings() -> None:
    """A delivery mode must be a `DeliveryMode`, and an expiry a duration."""
    with pytest.raises(WrongType, match="delivery_mode"):
        Event[int]("paid", delivery_mode="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        Event[int]("paid", expire_after=-1)


def test_definitions_serve_many_sessions() -> None:
    """One definition can be run by any number of sessions, with different arguments."""
    sessions = [a_session(module_level, amount) for amount in range(3)]
    assert [opened(session.start()) for session in sessions] == [["0"]] * 3
    assert [session.waits["0"].args for session in sessions] == [(0,), (1,), (2,)]
