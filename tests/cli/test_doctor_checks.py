"""The checks of the doctor: from facts to findings."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable.backends.sqlite.survey import Contents, Files, Group
from durable.cli.doctor.checks import AHEAD_MAX, CHECKS, LOG_MAX, Facts, diagnose
from durable.cli.doctor.command import report
from durable.model.clock import SECOND, from_datetime
from tests.cli.values import PIPE, START

NOW = from_datetime("now", START)
GB = 1 << 30
WELL = Facts(
    Files(
        path="orders.db", size=GB, log_size=1000, disk_free=100 * GB, disk_size=200 * GB, holder="process 7",
        schema_version=8, known_version=8,
    ),
    Contents(now=NOW, is_clean=False, by_status={"running": 3, "succeeded": 5}, latest=NOW),
)  # fmt: skip
GROUP = Group("diverged", 7, ("order-1", "order-2"), NOW - 600 * SECOND)


def facts(files: dict[str, Any] | None = None, **contents: Any) -> Facts:
    """Facts in which all is well, but for these."""
    assert WELL.contents is not None
    return Facts(attrs.evolve(WELL.files, **(files or {})), attrs.evolve(WELL.contents, **contents))


def codes(changed: Facts) -> list[str]:
    """The codes of what is found."""
    return [finding.code for finding in diagnose(changed)]


def test_well_store_has_no_findings() -> None:
    """Nothing is found in a store that is well, and the report says so."""
    assert diagnose(WELL) == []
    assert list(report(WELL, [], PIPE)) == [
        "orders.db: 1,073,741,824 bytes, 3 running, 5 succeeded; engine: process 7",
        "nothing found",
    ]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (facts(damage="page 7 is never used"), "damaged"),
        (facts({"disk_free": GB - 1}), "no-space"),
        (facts({"size": 1000, "disk_free": 400 << 20}), "no-space"),
        (facts({"holder": None}), "no-engine"),
        (attrs.evolve(WELL, silence=3.0), "stuck-engine"),
        (facts(latest=NOW + AHEAD_MAX + 1), "clock"),
        (facts(overdue=GROUP), "overdue"),
        (facts(parked=(GROUP,)), "parked"),
        (facts(suspects=GROUP), "suspects"),
        (facts(silent=GROUP), "stuck"),
        (facts({"log_size": LOG_MAX + 1}), "old-log"),
        (facts(dead_letters=(GROUP,)), "dead-letters"),
        (facts(ignored_events=(GROUP,)), "nobody-takes"),
        (Facts(attrs.evolve(WELL.files, schema_version=5), None), "old-schema"),
    ],
)
def test_check_finds_its_trouble(changed: Facts, code: str) -> None:
    """Each trouble is found by its check and by no other, and the finding says what to do."""
    (finding,) = diagnose(changed)
    assert finding.code == code
    assert finding.do


@pytest.mark.parametrize(
    "changed",
    [
        facts({"disk_free": 2 * GB}),
        facts({"holder": None}, by_status={"succeeded": 5, "parked": 1}),
        facts({"log_size": LOG_MAX}),
        facts(latest=NOW + AHEAD_MAX),
        facts(damage="ok"),
    ],
)
def test_limits_are_not_troubles(changed: Facts) -> None:
    """Just below a limit nothing is found."""
    assert diagnose(changed) == []


def test_timers_are_not_late_without_an_engine() -> None:
    """Without an engine there is one finding: start it. Late timers and silent runs follow from that."""
    assert codes(facts({"holder": None}, overdue=GROUP, silent=GROUP)) == ["no-engine"]


@pytest.mark.parametrize("reason", ["diverged", "unknown code", "unreadable", "crashed", ""])
def test_parked_runs_have_an_advice_for_their_reason(reason: str) -> None:
    """Each reason for parking has its own advice, also one of another version."""
    (finding,) = diagnose(facts(parked=(attrs.evolve(GROUP, about=reason),)))
    assert "durable" in finding.do or "deploy" in finding.do
    assert finding.count == 7


def test_report_names_examples() -> None:
    """A finding has its ids, how many others there are, and the advice, in this order."""
    changed = facts(parked=(GROUP,))
    assert list(report(changed, diagnose(changed), PIPE))[1:] == [
        "",
        "! 7 runs parked: diverged",
        "  order-1, order-2, and 5 others",
        "  -> deploy code that fits their histories (durable check-replay finds all); then durable retry them",
    ]


def test_every_check_has_a_case() -> None:
    """Every check in the table finds something in the cases above."""
    cases = test_check_finds_its_trouble.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert all(any(list(check(changed)) for changed, _ in cases) for check in CHECKS)
