"""The names of branches in positions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from durable.model.position import branch_label
from durable.runner.combinators import first_success, race
from durable.runner.definitions import Durable, workflow
from durable.runner.ops import sleep
from tests.runner.builders import a_session, activity_ok, approval, charge, opened, run, value_of

LABELS = {
    "left": "left",
    "_1": "_1",
    "1a": "1a",
    "": "%",
    "u": "%75",
    "U": "U",
    "uu": "uu",
    "7": "%37",
    "42": "%342",
    "a.b": "a%2Eb",
    "a/b:c": "a%2Fb%3Ac",
    "%": "%25",
    "%75": "%2575",
    "~": "%7E",
    "é": "%C3%A9",
    "٣": "%D9%A3",
    "\ud800": "%ED%A0%80",
}


@pytest.mark.parametrize(("key", "label"), LABELS.items())
def test_label_of_a_name(key: str, label: str) -> None:
    """A plain name is its own label; characters that a position cannot hold are percent-encoded."""
    assert branch_label(key) == label
    assert re.fullmatch(r"[\w%~]+", label, re.ASCII)
    assert not label.isdecimal()


def test_label_of_a_number_and_of_a_long_name() -> None:
    """A branch without a name uses its number; long names are cut, and those with the same beginning stay distinct."""
    assert branch_label(7) == "7"
    first, second = branch_label("x" * 300), branch_label("x" * 301)
    assert first != second
    assert len(first) == len(second) < 64


@pytest.mark.parametrize("verb", [race, first_success])
def test_named_branches_stand_under_their_names(verb: Any) -> None:
    """Named branches have their keys in positions, those without a name their numbers."""

    @workflow(name="w")
    def body() -> Durable[object]:
        return (yield from verb(charge(1), left=charge(2), **{"u": approval.wait(), "3": sleep(5)}))

    assert opened(a_session(body).start()) == ["0.0.0", "0.left.0", "0.%75.0", "0.%33.0"]


def test_swapped_names_keep_the_winner() -> None:
    """Code that passes the same branches in another order gets each result under the right name."""

    @workflow(name="w")
    def swapped() -> Durable[object]:
        won = yield from race(right=charge(2), left=charge(1))
        return [won.key, won.value]

    assert value_of(run(swapped, activity_ok(1, "0.left.0", "charge", 10))) == ["left", 10]


def test_old_runs_keep_their_numbers() -> None:
    """A run that began when branches had only numbers continues with numbers."""

    @workflow(name="w")
    def body() -> Durable[object]:
        won = yield from race(left=charge(1), right=charge(2))
        return [won.key, won.value]

    session = a_session(body)
    session.names_branches = False
    assert opened(session.start()) == ["0.0.0", "0.1.0"]
    assert value_of(session.feed(activity_ok(1, "0.1.0", "charge", 10))) == ["right", 10]
