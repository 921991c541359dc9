"""What the lint reports about operations: dropped, bare, taken for a result, or where they cannot run."""

from __future__ import annotations

import pytest

from durable.cli.lint import vocabulary
from tests.cli.kit import codes, findings, module

HELPER = "def helper(order):\n    yield from charge(order)\n"

DROPPED = (
    "charge(order)",
    "sleep(1)",
    "approval.wait()",
    "approval.wait('k').within(5)",
    "charge(order).within(5).or_default(1)",
    "charge.options(name='x')(order)",
    "gather(charge(order), sleep(1))",
    "child(order)",
    "child(order).with_id('x')",
    "helper(order)",
    "call(open, 'a')",
    "activity(len)(order)",
    "payment = charge(order)",
    "import durable; durable.sleep(1)",
    "payment: int = charge(order)",
    "payment = charge(order)\nif payment is not None:\n    return",
    "payment = charge(order)\npayment = 5\nyield from sleep(payment)",
    "payments = [charge(one) for one in order]\nyield from sleep(len(payments))",
    "payments = [helper(order)]",
)


@pytest.mark.parametrize("statement", DROPPED)
def test_operation_that_is_never_yielded_is_found(statement: str) -> None:
    """An operation that is made and dropped is reported, whatever makes it."""
    assert codes(module(f"{statement}\nyield from sleep(1)", more=HELPER)) == ["DUR101"]


KEPT = (
    "op = charge(order)\nyield from op",
    "ops = [charge(order), sleep(1)]\nyield from gather(*ops)",
    "ops = [charge(one) for one in order]\nyield from gather(*ops)",
    "first, second = charge(order), sleep(1)\nyield from gather(first, second)",
    "op = charge(order) if region else release(order)\nyield from op",
    "def later():\n    return op\nop = charge(order)\nyield from later()",
    "yield from (charge(order) if region else sleep(1))",
    "raise child.continue_as(order)",
    "remembered = {'op': charge(order)}\nyield from remembered['op']",
    "print\ncharge",
    "yield from ()",
    "op = charge(order)\nif op is not None:\n    yield from op",
    "op = charge(order)\nresult = yield from op\nop = result",
    "op = charge(order)\ndef later():\n    yield from op\nyield from later()\nop = None",
    "op = charge(order)\nif region:\n    op = sleep(1)\nyield from op",
    "try:\n    ops = [charge(order), sleep(1)]\nexcept ValueError:\n    ops = []\nyield from sleep(len(ops))",
    "first, second = [charge(order)], [sleep(1)]\nyield from gather(*first, *second)",
    "if (op := charge(order)) is not None:\n    yield from op",
    "def branches():\n    for item in order:\n        yield charge(item)\nyield from gather(*branches())",
)


@pytest.mark.parametrize("body", KEPT)
def test_operation_that_is_passed_on_is_not(body: str) -> None:
    """An operation may be kept, collected or passed on, as long as some code may still yield it."""
    assert codes(module(f"{body}\nyield from sleep(1)" if "return" not in body else body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "yield charge(order)",
        "paid = yield charge(order)",
        "yield",
        "yield from [charge(order)]",
        "yield from (charge(one) for one in order)",
        "x = (yield sleep(1)) or 2",
    ],
)
def test_bare_yield_is_found(body: str) -> None:
    """A bare `yield` in a workflow is reported."""
    assert codes(module(body)) == ["DUR102"]


@pytest.mark.parametrize("end", ["return order", "raise ValueError(order)"])
def test_yield_that_is_never_reached_is_not_reported(end: str) -> None:
    """A bare `yield` after the end, which only makes the body a generator, is fine. Before the end it is reported."""
    assert codes(module(f"if order:\n    {end}\n    yield\n{end}")) == []
    assert codes(module(f"if order:\n    yield\n    {end}\n{end}")) == ["DUR102"]


@pytest.mark.parametrize(
    "body",
    [
        "if approval.wait():\n    yield from sleep(1)",
        "while charge(order):\n    yield from sleep(1)",
        "x = charge(order) + 1",
        "x = charge(order) or 1",
        "x = not charge(order)",
        "x = charge(order) == 1",
        "x = f'{charge(order)}'",
        "x = charge(order)['key']",
        "for one in charge(order):\n    yield from sleep(1)",
        "x = [one for one in charge(order)]",
        "a, b = gather(charge(order), sleep(1))",
        "x = list(charge(order))",
        "x = [*charge(order)]",
        "assert charge(order)",
        "match charge(order):\n    case 1:\n        pass",
        "match order:\n    case x if charge(x):\n        pass",
        "x = [one for one in order if charge(one)]",
        "x = any(charge(one) for one in order)",
        "x = all([charge(order), region])",
        "x = list(filter(charge, order))",
        "x = list(filter(lambda one: charge(one), order))",
        "x = sorted(order, key=charge)",
        "x = max(order, key=charge.options(name='x'))",
        "x = isinstance(charge(order), int)",
        "x = '{}'.format(charge(order))",
        "x = {1: 'paid'}.get(charge(order))",
        "if helper(order):\n    return",
        "x = not helper(order)",
        "x = helper(order) == 1",
        "x = f'{helper(order)}'",
        "x = any(helper(one) for one in order)",
        "x = [one for one in order if helper(one)]",
        "x = list(filter(helper, order))",
        "x = str(helper(order))",
        "if x := charge(order):\n    return",
        "x = 5 in [charge(order)]",
        "x = [charge(order)] == [5]",
    ],
)
def test_operation_taken_for_a_result_is_found(body: str) -> None:
    """An operation or a helper is reported where only a result makes sense."""
    assert codes(module(f"{body}\nyield from sleep(1)", more=HELPER)) == ["DUR106"]


@pytest.mark.parametrize(
    "body",
    [
        "for one in helper(order):\n    print",
        "x = [one for one in helper(order)]",
        "x = sum(helper(order))",
        "x = [*helper(order)]",
        "first, second = helper(order)",
        "x = list(filter(len, order)) + sorted(order, key=len)",
        "x = [charge, helper]",
        "x = list(map(helper, order))\nyield from gather(*x)",
        "x = list(filter(lambda one: one, order))",
        "x = dict(one=charge(order))\nyield from x['one']",
    ],
)
def test_generators_that_may_be_iterated_are_not_reported(body: str) -> None:
    """A helper is a generator, like other functions that a workflow may iterate."""
    assert codes(module(f"{body}\nyield from sleep(1)", more=HELPER)) == []


WAIT = "try:\n    yield from approval.wait()\n"
CATCHING = {
    "except:\n    pass": ["DUR104"],
    "except BaseException:\n    return": ["DUR104"],
    "except (ValueError, BaseException) as error:\n    print": ["DUR104"],
    "except GeneratorExit:\n    pass": ["DUR104"],
    "except GeneratorExit:\n    yield from release(order)\n    raise": ["DUR103"],
    "finally:\n    yield from release(order)": ["DUR103"],
    "finally:\n    if region:\n        paid = yield from charge(order)": ["DUR103"],
    "finally:\n    return": ["DUR104"],
    "except BaseException:\n    yield from release(order)\n    raise": [],
    "except BaseException as error:\n    if region:\n        raise": [],
    "except Exception:\n    pass": [],
    "except Cancelled:\n    yield from release(order)": [],
    "finally:\n    order.close()": [],
    "finally:\n    def later():\n        return 1": [],
}


@pytest.mark.parametrize("block", CATCHING)
def test_blocks_around_a_wait(block: str) -> None:
    """A block that catches everything must re-raise a cancel, and a finally block must not wait."""
    assert codes(module(WAIT + block)) == CATCHING[block]


def test_blocks_without_a_wait_catch_nothing() -> None:
    """A cancel arrives only at a wait, so blocks without one may catch anything."""
    quiet = "try:\n    x = int(order)\nexcept:\n    x = 1\nfinally:\n    pass\nyield from sleep(x)"
    assert codes(module(quiet)) == []


def test_suppress_is_a_block_too() -> None:
    """`suppress(BaseException)` around a wait is reported like an except clause; `suppress(KeyError)` is not."""
    with_block = "from contextlib import suppress\nwith suppress({}):\n    yield from approval.wait()"
    assert codes(module(with_block.format("BaseException"))) == ["DUR104"]
    assert codes(module(with_block.format("KeyError"))) == []
    assert codes(module("from contextlib import suppress\nwith suppress(BaseException): ...\nyield from ()")) == []


def test_async_bodies_are_checked_the_same() -> None:
    """In an `async def` workflow, `await` takes the place of `yield from`."""
    text = module(
        "charge(order)\ntry:\n    await approval.wait()\nfinally:\n    await release(order)",
        decorated="@workflow\nasync def body",
    )
    assert codes(text) == ["DUR101", "DUR103"]
    assert codes(module("return await charge(order)", decorated="@workflow\nasync def body")) == []


def test_message_says_what_was_dropped() -> None:
    """The message calls a helper a helper, and says that `continue_as` must be raised."""
    messages = [finding.message for finding in findings(module("helper(order)\nyield from ()", more=HELPER))]
    assert messages == ["helper helper(...) is made and never yielded in workflow body"]
    (finding,) = findings(module("child.continue_as(order)\nyield from ()"))
    assert (finding.message, finding.fix) == (
        "child.continue_as(...) is made and never raised in workflow body",
        "write 'raise' before it",
    )


@pytest.mark.parametrize("statement", ["child.continue_as(order)", "again = child.continue_as(order)"])
def test_round_that_is_never_raised_is_found(statement: str) -> None:
    """A `continue_as` that is not raised is reported."""
    assert codes(module(f"{statement}\nyield from sleep(1)")) == ["DUR108"]
    assert codes(module("again = child.continue_as(order)\nyield from sleep(1)\nraise again")) == []


def test_vocabulary_is_that_of_the_runner() -> None:
    """The lint reads what a public name returns from its annotation, so new verbs need no table."""
    gives = {
        name: vocabulary.result_of(f"durable.{name}")
        for name in ("sleep", "gather", "race", "call", "now", "uuid", "Event", "Event.wait", "Op.within", "Op.nothing")
    }
    made = dict.fromkeys(("sleep", "gather", "race", "call", "Event.wait", "Op.within"), vocabulary.OP)
    assert gives == made | {"now": None, "uuid": None, "Event": "durable.Event", "Op.nothing": None}
    assert vocabulary.result_of("durable") is None
    assert vocabulary.result_of("durable.ActivityDef.options") == vocabulary.ACTIVITY
    assert vocabulary.public("durable.runner.ops.sleep") == "durable.sleep"
    assert vocabulary.public("other.runner.ops.sleep") == "other.runner.ops.sleep"
