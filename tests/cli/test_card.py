"""The facts about a run, and what to do."""

from __future__ import annotations

import textwrap

import attrs
import pytest

from durable import Description, FailedUndo, OwedUndo, ParkReason, WorkflowStatus
from durable.cli.card import card, next_step
from tests.cli.values import PAPER, PIPE, after, description, summary, waiting


def lines(whole: Description, error: str | None = None) -> str:
    """The card, ninety seconds after the start."""
    return "\n".join(card(whole, error, after(90), PAPER))


def test_card_of_a_run_that_waits() -> None:
    """A waiting run says for what, since when, until when, and where in its source."""
    run = summary(wake_at=after(4000), tags=("eu", "vip"), parent="batch-7", version=2, progress={"done": 3})
    waits = (
        waiting("5.0.0", 20, source="flows.py:24"),
        waiting("5.1.0", 20, "timer", "timer", until=after(4000)),
        waiting("6", 20, "mail", "activity", attempt=3, last_error="builtins.OSError: x", until=after(95)),
    )
    whole = description(run, waits=waits, children=("order-42/3",), pending_events=2, round=4)
    assert lines(whole) == textwrap.dedent(
        """\
        order-42  checkout v2  SUSPENDED  started 1m 30s ago
        started    03:12:00
        waits for  event approval, since 03:12:20 (1m 10s), flows.py:24
                   sleep, since 03:12:20 (1m 10s), until 04:18:40 (in 1h 05m)
                   activity mail, since 03:12:20 (1m 10s), attempt 3, next try 03:13:35
                     (in 5.0 s), last error OSError: x
        wakes      04:18:40 (in 1h 05m)
        progress   {"done": 3}
        tags       eu, vip
        parent     batch-7
        children   order-42/3
        round      5 (continue_as cleared the history of earlier rounds)
        mailbox    2 events not taken yet: durable events --to order-42
        next       it goes on with: durable send approval --to order-42 --input JSON"""
    )


def test_card_of_a_failed_run() -> None:
    """A failed run has its whole error, its undos and the command that retries it."""
    run = summary(WorkflowStatus.FAILED, finished_at=after(30), error="builtins.ValueError: no such...")
    failed = FailedUndo(position="1", step="charge", undo="refund", error_type="OSError", message="down")
    owed = OwedUndo(position="0", step="reserve", undo="release")
    text = lines(description(run, failed_undos=(failed,), owed_undos=(owed,)), "ValueError: no such warehouse\n'eu-7'")
    assert text == textwrap.dedent(
        """\
        order-42  checkout  FAILED  after 30.0 s
        started    03:12:00, ended 03:12:30 (1m 00s ago)
        error      ValueError: no such warehouse
                   'eu-7'
        undos      release of reserve at 0
        not undone undo refund of charge at 1 failed: OSError: down
        next       fix the cause, then durable retry order-42: it continues with the
                     step that failed"""
    )


@pytest.mark.parametrize("reason", ParkReason)
def test_card_of_a_parked_run(reason: ParkReason) -> None:
    """A parked run says why, with the whole diff, and what to do for this reason."""
    run = summary(WorkflowStatus.PARKED, parked="at 3\n  recorded: charge\n  asked:    refund")
    text = lines(description(run, park_reason=reason))
    assert f"parked     {reason.value}: at 3\n             recorded: charge" in text
    assert "durable retry order-42" in text


def test_next_step_names_the_pause_of_its_round() -> None:
    """A question is answered with the id that `durable pauses` shows, which names the round."""
    waits = (waiting("3", 1, "", "pause"),)
    assert next_step(description(waits=waits)) == "someone must answer: durable resume order-42 3 --input JSON"
    assert "resume order-42 2:3 " in (next_step(description(waits=waits, round=2)) or "")
    assert next_step(description(waits=(waiting("3", 1, "", "timer"),))) is None


def test_card_names_a_problem_and_a_cancel() -> None:
    """A run whose code is missing, and one that is being cancelled, say so."""
    text = lines(description(summary(cancel_requested=True), problem="no workflow 'checkout'"))
    assert "problem    no workflow 'checkout'" in text
    assert "cancel     requested" in text


def test_long_lists_are_cut() -> None:
    """Of many waits and children the first are shown, and how to see the others."""
    waits = tuple(waiting(str(number), 1) for number in range(20))
    children = tuple(f"order-42/{number}" for number in range(20))
    text = lines(description(waits=waits, children=children))
    assert "and 8 more waits" in text
    assert "and more: durable ps parent:order-42" in text
    assert "order-42/10" not in text


def test_lines_fit_and_text_cannot_move_the_cursor() -> None:
    """Lines are broken at blanks; what cannot be broken stays whole, and control characters are escapes."""
    run = summary(WorkflowStatus.FAILED, finished_at=after(1), id="a\x1b[2J")
    shown = list(card(description(run), "E: " + "word " * 50 + "x\x07", after(2), PAPER))
    assert all(len(line) <= 80 for line in shown)
    assert "\x1b" not in "".join(shown)
    assert "\x07" not in "".join(shown)
    assert len(list(card(description(run), "E: " + "word " * 50, after(2), PIPE))) == 4
    assert len("".join(card(description(run), "w" * 300, after(2), attrs.evolve(PAPER, width=40)))) > 300
