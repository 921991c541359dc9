"""What is known about a run, in lines for a person who was just woken up. Pure: values in, lines out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime

from durable.cli.output import Screen, compact, cut, padded, status_colour, visible, width_of
from durable.cli.words import ago, clock_time, duration, plural
from durable.engine.operations.views import Description, Waiting
from durable.model.records import EntryKind, ParkReason, WorkflowStatus

_LABEL_WIDTH = 10
# Longer lists of children are cut.
_CHILDREN_SHOWN = 10
_WAITS_SHOWN = 12
_NEXT_FOR_PARKED = {
    ParkReason.DIVERGED: "deploy code that fits its history (durable check-replay), or durable fork it; then",
    ParkReason.UNKNOWN_CODE: "deploy code that has this workflow, and it continues by itself; or",
    ParkReason.UNREADABLE: "deploy code that reads the stored values, or repair the damaged row; then",
    ParkReason.CRASHED: "fix what ended the process, then",
}


def card(description: Description, error: str | None, now: datetime, screen: Screen) -> Iterator[str]:
    """The lines about a run: its status, its waits, its family, its error, and what to do. `error` is its full text."""
    summary = description.summary
    since = duration((summary.finished_at or now) - summary.created_at)
    word = screen.style(summary.status.value.upper(), status_colour(summary.status), bold=True)
    how = f"after {since}" if summary.status.is_terminal else f"started {since} ago"
    version = "" if summary.version < 2 else f" v{summary.version}"
    yield f"{screen.style(visible(summary.id), None, bold=True)}  {visible(summary.name)}{version}  {word}  {how}"
    for label, lines in _facts(description, error, now, screen):
        for number, line in enumerate(lines):
            yield from _wrapped(label if number == 0 else "", line, screen)


def _facts(
    description: Description, error: str | None, now: datetime, screen: Screen
) -> Iterator[tuple[str, list[str]]]:
    """Each fact with its label, in the order in which a person asks."""
    summary = description.summary
    moments = [f"{clock_time(summary.created_at, now, screen.zone)}"]
    if summary.finished_at is not None:
        moments.append(f"ended {clock_time(summary.finished_at, now, screen.zone)} ({ago(summary.finished_at, now)})")
    yield "started", [", ".join(moments)]
    if summary.kept:
        yield "kept", ["no engine runs; the next one starts it"]
    if description.park_reason is not None or summary.parked:
        reason = "" if description.park_reason is None else f"{description.park_reason.value}: "
        yield "parked", f"{reason}{summary.parked or ''}".splitlines()
    elif description.problem:
        yield "problem", description.problem.splitlines()
    if error or summary.error:
        yield "error", (error or summary.error or "").removeprefix("builtins.").splitlines()
    if description.waits:
        waits = [_wait(wait, now, screen) for wait in description.waits[:_WAITS_SHOWN]]
        more = len(description.waits) - len(waits)
        yield "waits for", waits + ([f"and {plural(more, 'more wait')}"] if more else [])
    if summary.wake_at is not None and not summary.status.is_terminal:
        yield "wakes", [f"{clock_time(summary.wake_at, now, screen.zone)} ({ago(summary.wake_at, now)})"]
    if summary.cancel_requested and not summary.status.is_terminal:
        yield "cancel", ["requested; it ends as soon as its cleanup is done"]
    if summary.progress is not None:
        yield "progress", [compact(summary.progress)]
    if summary.tags:
        yield "tags", [", ".join(map(visible, summary.tags))]
    yield from _family(description)
    if description.round:
        yield "round", [f"{description.round + 1} (continue_as cleared the history of earlier rounds)"]
    if description.pending_events:
        yield (
            "mailbox",
            [f"{plural(description.pending_events, 'event')} not taken yet: durable events --to {summary.id}"],
        )
    if description.owed_undos:
        yield "undos", [f"{undo.undo} of {undo.step} at {undo.position}" for undo in description.owed_undos]
    if description.failed_undos:
        yield "not undone", [str(undo) for undo in description.failed_undos]
    if hint := next_step(description):
        yield "next", [hint]


def _family(description: Description) -> Iterator[tuple[str, list[str]]]:
    if description.summary.parent is not None:
        yield "parent", [visible(description.summary.parent)]
    if description.children:
        shown = list(map(visible, description.children[:_CHILDREN_SHOWN]))
        more = len(description.children) - len(shown)
        listed = f"and more: durable ps parent:{description.summary.id}"
        yield "children", shown + ([listed] if more else [])


def _wait(wait: Waiting, now: datetime, screen: Screen) -> str:
    """One wait in a line: what, since when, until when, which attempt, where in the source."""
    what = (
        "sleep" if wait.kind == EntryKind.TIMER.value and wait.name == "timer" else f"{wait.kind} {wait.name}".strip()
    )
    parts = [f"{visible(what)}, since {clock_time(wait.since, now, screen.zone)} ({duration(now - wait.since)})"]
    if wait.attempt > 1 or wait.is_running:
        parts.append(f"attempt {wait.attempt}{' is running' if wait.is_running else ''}")
    if wait.until is not None:
        verb = "next try" if wait.kind == EntryKind.ACTIVITY.value else "until"
        parts.append(f"{verb} {clock_time(wait.until, now, screen.zone)} ({ago(wait.until, now)})")
    if wait.last_error:
        parts.append(f"last error {visible(wait.last_error.removeprefix('builtins.'))}")
    if wait.source:
        parts.append(short_path(wait.source))
    return ", ".join(parts)


def short_path(source: str) -> str:
    """A source line with its path relative to the current folder, if it is below it."""
    folder = os.path.join(os.getcwd(), "")
    return visible(source.removeprefix(folder))


def next_step(description: Description) -> str | None:
    """What a person can do about a run, as a sentence or a command; None if it needs nobody."""
    summary = description.summary
    if summary.status is WorkflowStatus.PARKED:
        fix = "fix the problem, then" if description.park_reason is None else _NEXT_FOR_PARKED[description.park_reason]
        return f"{fix} durable retry {summary.id}"
    if summary.status is WorkflowStatus.FAILED:
        return f"fix the cause, then durable retry {summary.id}: it continues with the step that failed"
    question = next((wait for wait in description.waits if wait.kind == EntryKind.PAUSE.value), None)
    if question is not None:
        pause = question.position if not description.round else f"{description.round}:{question.position}"
        return f"someone must answer: durable resume {summary.id} {pause} --input JSON"
    event = next((wait for wait in description.waits if wait.kind == EntryKind.EVENT.value and wait.name), None)
    if event is not None:
        return f"it goes on with: durable send {event.name} --to {summary.id} --input JSON"
    return None


def _wrapped(label: str, line: str, screen: Screen) -> Iterator[str]:
    """A line after its label, broken at blanks if it is too wide for the screen."""
    head = screen.style(padded(label, _LABEL_WIDTH), None, dim=True)
    room = None if screen.width is None else max(20, screen.width - _LABEL_WIDTH - 1)
    shown = visible(line)
    text = shown[: len(shown) - len(shown.lstrip(" "))]
    for word in shown.lstrip(" ").split(" "):
        if room is not None and text.strip() and width_of(f"{text} {word}") > room:
            yield f"{head} {text}"
            head, text = " " * _LABEL_WIDTH, "  " + word
        else:
            text = f"{text} {word}" if text.strip() else text + word
    yield f"{head} {text if room is None else cut(text, max(room, width_of(text)), screen)}".rstrip()
