"""What the lint reports about sets and module variables."""

from __future__ import annotations

import pytest

from tests.cli.kit import codes, module

ORDERED = (
    "for one in {order, region}: pass",
    "for one in set(order): pass",
    "for one in frozenset(order): pass",
    "names = set(order)\nfor one in names: pass",
    "names: set[str] = order\nfor one in names: pass",
    "names: 'frozenset[str] | None' = order\nfor one in names: pass",
    "import typing\nnames: typing.Set = order\nfor one in names: pass",
    "names = {one for one in order}\nfor one in names | {'x'}: pass",
    "for one in set(order).union(region): pass",
    "for one in order.keys() & region.keys(): pass",
    "x = [one for one in {order, region}]",
    "x = {one: 1 for one in set(order)}",
    "x = list(set(order))",
    "x = tuple({order, region})",
    "x = ', '.join(set(order))",
    "x = set(order).pop()",
    "a, b = {order, region}",
    "x = [*set(order)]",
    "x = next(iter(set(order)))",
    "yield from gather(*[charge(one) for one in set(order)])",
    "yield from gather(*(charge(one) for one in set(order)))",
)


@pytest.mark.parametrize("body", ORDERED)
def test_order_of_a_set_is_found(body: str) -> None:
    """Code that shows the order of a set is reported, once."""
    assert codes(module(f"{body}\nyield from sleep(1)")) == ["DUR006"]


ORDERLESS = (
    "for one in sorted({order, region}): pass",
    "for one in {1, 2, 3}: pass",
    "numbers: set[int] = order\nfor one in numbers: pass",
    "x = sorted(one.lower() for one in set(order))",
    "x = sorted(list(set(order)))",
    "x = {one.lower() for one in set(order)}",
    "x = sum(len(one) for one in set(order))",
    "x = len(set(order)); y = order in {'a', 'b'}",
    "x = {*set(order), 'c'}",
    "for one in dict.fromkeys(order): pass",
    "for one in order: pass",
    "names = set(order)\nnames = sorted(names)\nfor one in names: pass",
    "x = [1, 2].pop(); y = {'a': 1}.pop('a')",
)


@pytest.mark.parametrize("body", ORDERLESS)
def test_set_without_order_is_not_reported(body: str) -> None:
    """A set that is sorted, counted or queried is fine, and so is a value that only may be a set."""
    assert codes(module(f"{body}\nyield from sleep(1)")) == []


def test_variables_that_depend_on_each_other_take_linear_time() -> None:
    """A body with many circular assignments is read in time proportional to its length."""
    circle = "\n".join("first = second | first - second\nsecond = first | second" for _ in range(200))
    assert codes(module(f"first = second = set(order)\n{circle}\nfor one in first: yield from sleep(1)")) == []
    assert codes(module(f"{circle}\nfor one in set(first): yield from sleep(1)")) == ["DUR006"]


CHANGED = (
    "SEEN.append(order)",
    "SEEN[0] = order",
    "del SEEN[0]",
    "x = len(SEEN)",
    "next(COUNTER)",
    "global TOTAL\nTOTAL = 1",
    "global TOTAL\nTOTAL += 1",
    "STATE.mood = order",
    "x = TOTAL",
)
MORE = """
import itertools
COUNTER = itertools.count()
TOTAL = 0
class State: ...
STATE = State()
FIXED = 5
def count():
    global TOTAL
    TOTAL += 1
"""


@pytest.mark.parametrize("body", CHANGED)
def test_global_that_changes_is_found(body: str) -> None:
    """A body must neither change a module variable nor read one that functions change."""
    assert set(codes(module(f"{body}\nyield from sleep(1)", more=MORE))) == {"DUR007"}


def test_table_that_is_filled_at_import_is_a_constant() -> None:
    """A table that only module code fills, for example a decorator, is a constant."""
    more = """
TABLE, NAMES = {}, []
TABLE = {}
NAMES = []
def entered(fn):
    TABLE[fn.__name__] = fn
    return fn

def register(name):
    NAMES.append(name)

register("one")

@entered
def one(): ...
"""
    assert codes(module("x = TABLE[order], NAMES[0]\nyield from sleep(1)", more=more)) == []


QUIET = (
    "x = LIMITS['eu']",
    "x = FIXED",
    "seen = []\nseen.append(order)",
    "SEEN = [order]\nSEEN.append(order)",
    "order.append(1)",
    "order.mood = 1",
)


@pytest.mark.parametrize("body", QUIET)
def test_constants_and_locals_are_not_reported(body: str) -> None:
    """Constants of the module and variables of the body are the same on every replay."""
    assert codes(module(f"{body}\nyield from sleep(1)", more=MORE)) == []
