"""The picture of a run: when steps began, and how they are drawn."""

from __future__ import annotations

import textwrap
from datetime import datetime

import attrs
import pytest

from durable import EntryKind, HistoryEntry, WorkflowStatus
from durable.cli.timeline import Scale, draw, error_text, steps
from tests.cli.values import PAPER, PIPE, START, after, description, entry, summary, waiting

RETRIED = [
    entry("0", 2, "reserve"),
    entry("1", 3, error="503: no", retry_after=1),
    entry("1", 5, error="503: no", retry_after=2),
    entry("1", 8, value=4200),
]
BRANCHES = [
    *RETRIED,
    entry("2.left.0", 9, "ship"),
    entry("2.right.0", 12, "pack"),
    entry("2.right.1", 13, "label"),
    entry("3", 13.5, "audit", EntryKind.SPAWN, value="order-42/3"),
    entry("4", 20, "timer", EntryKind.TIMER),
]
WAITING = description(waits=(waiting("5.0.0", 20), waiting("6", 20, "mail", "activity", is_running=True)))


def picture(text: str) -> str:
    """A drawing in a test, without its indentation."""
    return textwrap.dedent(text).strip("\n")


def test_picture_of_a_run_that_waits() -> None:
    """Each step is a bar from its begin to its end, failed attempts look different, and what is open has a head."""
    drawn = "\n".join(draw(WAITING, BRANCHES, after(40), PAPER))
    assert drawn == picture(
        """
        STEP                       03:12:00   not to scale   03:12:40  TOOK
        0          reserve         ███                                 2.0 s
        1          charge            ▒▒▒▒·▒▒▒··███                     6.0 s, 3 attempts
              attempt 1 failed 03:12:03  ConnectionError: 503: no
              attempt 2 failed 03:12:05  ConnectionError: 503: no
        2.left.0   ship                          ████                  1.0 s
        2.right.0  pack                          ███████               4.0 s
        2.right.1  label                               ███             1.0 s
        3          spawn audit                           ███           500 ms
        4          sleep                                   ─────       6.5 s
        5.0.0      event approval                              ─────▶  20.0 s
        6          mail                                        █████▶  20.0 s
        """
    )


def test_picture_without_unicode() -> None:
    """Where only ASCII can be shown, bars are made of it. The scale is even if no gap takes most of the time."""
    plain_screen = attrs.evolve(PAPER, has_unicode=False, width=60)
    run = summary(WorkflowStatus.SUCCEEDED, finished_at=after(8))
    assert "\n".join(draw(description(run), RETRIED, after(40), plain_screen)) == picture(
        """
        STEP           03:12:00          03:12:08  TOOK
        0     reserve  #######                     2.0 s
        1     charge         xxxx...xxxx.....####  6.0 s, 3 attempts
              attempt 1 failed 03:12:03  ConnectionError: 503: no
              attempt 2 failed 03:12:05  ConnectionError: 503: no
        """
    )


def test_lines_fit_the_screen() -> None:
    """No line is wider than the screen, however long names and errors are; a pipe gets whole errors."""
    long = [entry("0." + "very-long-branch." * 5 + "0", 1, "n" * 200), entry("1", 2, error="e" * 500)]
    for width in (60, 80, 140):
        assert all(len(line) <= width for line in draw(description(), long, after(3), attrs.evolve(PAPER, width=width)))
    assert any("e" * 500 in line for line in draw(description(), long, after(3), PIPE))


def starts(history: list[HistoryEntry]) -> dict[str, datetime]:
    """When each step began."""
    return {step.position: step.start for step in steps(description(), history)}


def test_step_begins_when_the_one_before_it_ended() -> None:
    """A branch begins with its operation, and what follows a gather begins with its last branch."""
    assert starts(BRANCHES) == {
        "0": START,
        "1": after(2),
        "2.left.0": after(8),
        "2.right.0": after(8),
        "2.right.1": after(12),
        "3": after(13),
        "4": after(13.5),
    }


def test_undo_begins_after_what_it_undoes() -> None:
    """Positions of undos and of named branches are understood, and nothing is drawn before the start of the run."""
    history = [entry("0", 1), entry("u.1.0", 3, "refund"), entry("u.1.1", 4, "mail")]
    assert starts(history) == {"0": START, "u.1.0": START, "u.1.1": after(3)}


def test_clock_that_was_set_back_gives_no_negative_time() -> None:
    """An attempt begins at the latest when it ends."""
    first, second = entry("0", 10), entry("1", 5)._replace(seq=20_000)
    (_, step) = steps(description(), [first, second])
    assert step.start == step.end == after(5)


def test_retry_that_is_due_has_its_time() -> None:
    """A failed activity that will be tried again is open: its next attempt has a time, and is not running."""
    waits = (waiting("1", 2, "charge", "activity", attempt=3, until=after(7)),)
    (_, step) = steps(description(waits=waits), RETRIED[:3])
    assert (len(step.attempts), step.next_try, step.end) == (2, after(7), None)
    lines = list(draw(description(waits=waits), RETRIED[:3], after(6), PAPER))
    assert lines[-1] == "      attempt 3 at 03:12:07 (in 1.0 s)"


def test_attempt_that_runs_is_open() -> None:
    """While an attempt runs, it begins where the delay ended, and has no end."""
    waits = (waiting("1", 2, "charge", "activity", attempt=3, until=after(7), is_running=True),)
    (_, step) = steps(description(waits=waits), RETRIED[:3])
    assert [(attempt.start, attempt.end) for attempt in step.attempts][-1] == (after(7), None)


@pytest.mark.parametrize(("is_whole", "failures", "left_out"), [(False, 3, True), (True, 9, False)])
def test_many_attempts_are_cut(is_whole: bool, failures: int, left_out: bool) -> None:
    """Of many failed attempts the last are shown, unless all are wanted."""
    history = [entry("0", number, error=f"no {number}", retry_after=0.5) for number in range(1, 10)]
    lines = list(draw(description(), history, after(20), PAPER, is_whole=is_whole))
    assert len([line for line in lines if "failed 03" in line]) == failures
    assert ("      6 earlier failed attempts" in lines) is left_out


def test_many_steps_are_cut() -> None:
    """Of many steps the last are drawn, on a scale of their own."""
    history = [entry(str(number), number + 1, f"step-{number}") for number in range(100)]
    lines = list(draw(description(), history, after(100), PAPER))
    assert lines[0] == "60 earlier steps left out: --all draws them"
    assert "03:13:00" in lines[1]
    assert len(lines) == 42
    assert len(list(draw(description(), history, after(100), PAPER, is_whole=True))) == 101


def test_marks_are_points() -> None:
    """What an operator did is a point in time, beside the step that it concerns."""
    history = [*RETRIED, entry("1", 9, "", EntryKind.RETRIED), entry("1", 12, value=1)]
    lines = list(draw(description(), history, after(12), PAPER))
    assert any("retried by hand" in line and "◆" in line for line in lines)
    assert [step.label for step in steps(description(), history)] == ["reserve", "retried by hand", "charge"]


@pytest.mark.parametrize(("value", "end"), [({"reason": "the\n bank"}, "the bank"), ({}, ""), ([3], "")])
def test_mark_has_its_reason(value: object, end: str) -> None:
    """The reason for a repair or a retry stands beside it, in one line."""
    history = [*RETRIED, entry("1", 9, "", EntryKind.RETRIED, value=value), entry("1", 12, value=1)]
    (line,) = [line for line in draw(description(), history, after(12), PAPER) if "retried by hand" in line]
    assert ("the bank" in line) is bool(end)


def test_run_without_steps_has_no_picture() -> None:
    """There is nothing to draw before the first step."""
    assert list(draw(description(), [], after(5), PAPER)) == []


def test_long_gap_is_squeezed() -> None:
    """If one gap takes most of the time, short steps still have a width, and instants keep their order."""
    shown = steps(WAITING, BRANCHES)
    squeezed = Scale.of(shown, START, after(90_000), 50)
    assert squeezed.is_squeezed
    cells = [squeezed.cell(after(second)) for second in (0, 2, 8, 13, 20, 90_000)]
    assert cells == sorted(set(cells))
    assert not Scale.of(shown[:2], START, after(90_000), 50).is_squeezed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "builtins.ValueError", "message": "a\n  b"}, "ValueError: a b"),
        ({"type": "shop.Declined", "message": ""}, "shop.Declined"),
        ("torn", "torn"),
        ({}, "error"),
    ],
)
def test_error_is_one_line(value: object, text: str) -> None:
    """A stored error becomes its class and its message, also if it is damaged."""
    assert error_text(value) == text
