"""Filters for runs."""

from __future__ import annotations

from datetime import timezone

import pytest

from durable import WorkflowStatus
from durable.cli.filters import Filters, parse_filters
from tests.cli.values import START, after


def test_filters_are_read() -> None:
    """Each filter is a key and a value; statuses add up, also from one word."""
    words = "status:parked,failed status:running name:checkout tag:eu since:2h until:30m id:order- parent:a:b".split()
    assert parse_filters(words, START, timezone.utc) == Filters(
        status=(WorkflowStatus.PARKED, WorkflowStatus.FAILED, WorkflowStatus.RUNNING),
        name="checkout",
        tag="eu",
        since=after(-7200),
        until=after(-1800),
        id_prefix="order-",
        parent="a:b",
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("parked", "did you mean status:parked"),
        ("order-", "did you mean id:order-"),
        ("state:parked", "'state:parked' is not a filter; filters look like"),
        ("name:", "write name:VALUE"),
        ("status:stuck", "the statuses are running"),
        ("since:yesterday", "neither a duration"),
    ],
)
def test_wrong_filter_says_how_to_write_it(word: str, said: str) -> None:
    """A word that is not a filter is refused with the most likely correction."""
    with pytest.raises(ValueError, match=said.replace("(", "\\(")):
        parse_filters([word], START)


def test_filter_twice_is_refused() -> None:
    """Two names match no run, so that is a mistake."""
    with pytest.raises(ValueError, match="name: is given twice"):
        parse_filters(["name:a", "name:b"], START)


def test_filters_are_arguments() -> None:
    """Filters are arguments of `runs.list`, without those that are not set."""
    filters = parse_filters(["status:parked", "id:order-"], START)
    assert filters.arguments() == {"status": (WorkflowStatus.PARKED,), "id_prefix": "order-"}
