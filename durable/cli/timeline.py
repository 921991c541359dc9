"""The life of one run as a picture: each step with its attempts as bars. Pure: values in, lines out.

The history says when something ended, not when it began. A step begins when the step before it in the same branch has
ended, and a branch begins with the operation that opened it. An attempt after a failed one begins when its delay is
over. So the bars are computed in two passes: `steps` gathers what ended and what is open, `draw` scales it to a width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate, pairwise

import attrs

from durable.cli.output import Screen, cut, padded, visible, width_of
from durable.cli.words import clock_time, duration, plural
from durable.engine.operations.views import Description, Waiting
from durable.model.position import Position
from durable.model.records import EntryKind, EntryStatus, HistoryEntry

# What is looked up on a replay and takes no time: the marks of operators, of `patched` and of cancelling.
_MARKS = {
    EntryKind.CANCEL: "cancel requested",
    EntryKind.REPAIRED: "repaired by hand",
    EntryKind.RETRIED: "retried by hand",
    EntryKind.FORKED: "forked here",
    EntryKind.PATCH: "patch",
    EntryKind.REFUSAL: "result refused",
}
_BY_HAND = frozenset({EntryKind.REPAIRED, EntryKind.RETRIED})
_PREFIXES = {
    EntryKind.ACTIVITY: "",
    EntryKind.TIMER: "",
    EntryKind.RESULT: "end of ",
    EntryKind.CANCEL_CHILD: "cancel ",
}
_BAR_MAX, _BAR_LEAST = 60, 8
# From so many steps on, a gap that takes this share of the time is squeezed: gaps then count by this power.
_SQUEEZED_FROM, _LONG_GAP, _SQUEEZE = 3, 0.5, 0.3
_NAME_MAX, _POSITION_MAX = 30, 16
# So many steps, and so many failed attempts of a step, are shown unless all are wanted.
STEPS_SHOWN, FAILURES_SHOWN = 40, 3


@attrs.frozen(kw_only=True)
class Attempt:
    """One try of a step, or a wait. `end` is None while it is open; `error` says why it failed."""

    start: datetime
    end: datetime | None
    error: str | None = None


@attrs.frozen(kw_only=True)
class Step:
    """One step of a run, or a mark in it. `next_try` is when the next attempt begins, if the last one failed."""

    position: str
    kind: EntryKind
    name: str
    attempts: tuple[Attempt, ...]
    next_try: datetime | None = None
    # Whether an attempt runs now. A wait for time, events, people or children is open but not running.
    is_running: bool = False
    # Why an operator did it.
    reason: str | None = None

    @property
    def start(self) -> datetime:
        """When its first attempt began."""
        return self.attempts[0].start

    @property
    def end(self) -> datetime | None:
        """When it ended; None while it is open, also between two attempts."""
        return None if self.next_try is not None else self.attempts[-1].end

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.kind in _MARKS:
            return f"{_MARKS[self.kind]}{f' {self.name}' if self.kind is EntryKind.PATCH else ''}"
        if self.kind is EntryKind.TIMER:
            return "sleep" if self.name == "timer" else self.name
        prefix = _PREFIXES.get(self.kind, f"{self.kind.value} ")
        return f"{prefix}{self.name}".strip()


# --- gathering ------------------------------------------------------------------------------------------------------


def error_text(value: object) -> str:
    """The class and the message of a stored error, in one line. `value` is `HistoryEntry.value`."""
    if not isinstance(value, dict):
        return visible(str(value))
    kind = str(value.get("type", "error")).removeprefix("builtins.")
    message = " ".join(str(value.get("message", "")).split())
    return visible(f"{kind}: {message}" if message else kind)


def steps(description: Description, history: Sequence[HistoryEntry]) -> list[Step]:
    """The steps of a run in the order in which they began; those that began together by position."""
    begun = description.summary.created_at
    starts = _Starts(history, begun)
    done: dict[str, Step] = {}
    for entry in history:
        before = done.pop(entry.position, None) if entry.kind not in _MARKS else None
        start = starts.of(entry) if before is None or before.next_try is None else before.next_try
        failed = None if entry.status is EntryStatus.OK else error_text(entry.value)
        # The clock may have been set back, and an attempt takes no negative time.
        attempt = Attempt(start=min(start, entry.at), end=entry.at, error=failed)
        earlier = () if before is None else before.attempts
        key = f"{entry.position} {entry.seq}" if entry.kind in _MARKS else entry.position
        done[key] = Step(
            position=entry.position,
            kind=entry.kind,
            name=entry.name,
            attempts=(attempt,) if entry.kind in _MARKS else (*earlier, attempt),
            next_try=entry.retry_at if entry.status is EntryStatus.RETRY else None,
            reason=_reason(entry),
        )
    for wait in description.waits:
        done[wait.position] = _open_step(wait, done.pop(wait.position, None))
    return sorted(done.values(), key=_order)


def _reason(entry: HistoryEntry) -> str | None:
    """Why an operator did what this entry says."""
    value = entry.value if entry.kind in _BY_HAND else None
    reason = value.get("reason") if isinstance(value, dict) else None
    return " ".join(reason.split()) if isinstance(reason, str) else None


def _order(step: Step) -> tuple[datetime, list[tuple[int, str]]]:
    """What sorts steps: their begin, then their position, in which 10 comes after 9."""
    parts = Position(step.position).parts
    return step.start, [(int(part), "") if part.isdecimal() else (1 << 62, part) for part in parts]


def _open_step(wait: Waiting, before: Step | None) -> Step:
    """The step that a wait is, after its failed attempts."""
    earlier = () if before is None else before.attempts
    next_try = wait.until if wait.kind == EntryKind.ACTIVITY.value and earlier and not wait.is_running else None
    is_between = next_try is not None
    start = before.next_try if before is not None and before.next_try is not None else wait.since
    attempts = earlier if is_between else (*earlier, Attempt(start=start, end=None))
    return Step(
        position=wait.position,
        kind=EntryKind(wait.kind),
        name=wait.name,
        attempts=attempts,
        next_try=next_try,
        is_running=wait.is_running,
    )


class _Starts:
    """When steps began. Each operation begins when those before it in its branch have ended."""

    def __init__(self, history: Sequence[HistoryEntry], begun: datetime) -> None:
        self._begun = begun
        # For each branch, by its prefix: the number of each ended operation and when it ended, in recorded order.
        self._ends: dict[str, list[tuple[int, int, datetime]]] = {}
        for entry in history:
            parts = Position(entry.position).parts
            for place in range(0, len(parts), 2):
                if parts[place].isdecimal():
                    branch = ".".join(parts[:place])
                    self._ends.setdefault(branch, []).append((int(parts[place]), entry.seq, entry.at))

    def of(self, entry: HistoryEntry) -> datetime:
        """When the step of an entry began."""
        parts = Position(entry.position).parts
        for place in range((len(parts) - 1) // 2 * 2, -1, -2):
            number = int(parts[place]) if parts[place].isdecimal() else 0
            ends = self._ends.get(".".join(parts[:place]), [])
            before = [at for other, seq, at in ends if other < number and seq < entry.seq]
            if before:
                return max(before)
        return self._begun


# --- drawing --------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Glyphs:
    """The characters of bars: an attempt, a failed one, the delay after it, a wait, and the end of what is open."""

    work: str
    failed: str
    delay: str
    wait: str
    open: str
    mark: str


_UNICODE = Glyphs(work="█", failed="▒", delay="·", wait="─", open="▶", mark="◆")
_ASCII = Glyphs(work="#", failed="x", delay=".", wait="-", open=">", mark="*")
_WORK = frozenset({EntryKind.ACTIVITY, EntryKind.SPAWN, EntryKind.SEND, EntryKind.CANCEL_CHILD, EntryKind.LOOP})


@attrs.frozen(kw_only=True)
class Scale:
    """Instants as columns of a bar. `knots` are the instants that matter, each with its place between 0 and 1."""

    first: datetime
    last: datetime
    width: int
    knots: tuple[tuple[datetime, float], ...] = ()

    @property
    def is_squeezed(self) -> bool:
        """Whether long gaps are drawn shorter than they were."""
        return bool(self.knots)

    @classmethod
    def of(cls, shown: Sequence[Step], first: datetime, last: datetime, width: int) -> Scale:
        """The scale for these steps. If one gap takes most of the time, it is squeezed, or the rest would be a dot."""
        moments = {moment for step in shown for attempt in step.attempts for moment in (attempt.start, attempt.end)}
        inner = sorted(moment for moment in moments if moment is not None and first < moment < last)
        knots = [first, *inner, last]
        gaps = [(after - before).total_seconds() for before, after in pairwise(knots)]
        if len(shown) < _SQUEEZED_FROM or max(gaps) < _LONG_GAP * sum(gaps):
            return cls(first=first, last=last, width=width)
        weights = [0.0, *accumulate(gap**_SQUEEZE for gap in gaps)]
        places = tuple(zip(knots, (weight / weights[-1] for weight in weights), strict=True))
        return cls(first=first, last=last, width=width, knots=places)

    def cell(self, moment: datetime) -> int:
        """The column of an instant."""
        return min(self.width - 1, max(0, int(self._share(moment) * self.width)))

    def _share(self, moment: datetime) -> float:
        if not self.knots:
            whole = (self.last - self.first).total_seconds()
            return (moment - self.first).total_seconds() / whole if whole > 0 else 0.0
        after = bisect_left(self.knots, moment, key=lambda knot: knot[0])
        if after == 0:
            return 0.0
        if after == len(self.knots):
            return 1.0
        (begin, low), (end, high) = self.knots[after - 1 : after + 1]
        return low + (high - low) * ((moment - begin) / (end - begin))


def bar(step: Step, scale: Scale, now: datetime, screen: Screen) -> str:
    """The bar of a step, `scale.width` cells wide. What happened in one cell is shown by what matters most in it."""
    glyphs = _UNICODE if screen.has_unicode else _ASCII
    cells: list[tuple[str, str | None]] = [(" ", None)] * scale.width

    def fill(start: datetime, end: datetime, glyph: str, colour: str | None) -> None:
        for place in range(scale.cell(start), scale.cell(end) + 1):
            cells[place] = glyph, colour

    if step.kind in _MARKS:
        fill(step.start, step.start, glyphs.mark, "yellow")
        return _joined(cells, screen)
    glyph, colour = (glyphs.work, "green") if step.kind in _WORK else (glyphs.wait, "blue")
    for attempt, following in zip(step.attempts, (*step.attempts[1:], None), strict=True):
        resumed = following.start if following else step.next_try
        if attempt.end is not None and resumed is not None:
            fill(attempt.end, min(resumed, now), glyphs.delay, None)
    # Failed attempts last: they are what someone is looking for.
    for attempt in sorted(step.attempts, key=lambda attempt: attempt.error is not None):
        is_failed = attempt.error is not None
        fill(attempt.start, attempt.end or now, *((glyphs.failed, "red") if is_failed else (glyph, colour)))
    if step.end is None:
        cells[scale.cell(now)] = glyphs.open, "cyan"
    return _joined(cells, screen)


def _joined(cells: list[tuple[str, str | None]], screen: Screen) -> str:
    return "".join(screen.style(glyph, colour) if colour else glyph for glyph, colour in cells)


def draw(
    description: Description, history: Sequence[HistoryEntry], now: datetime, screen: Screen, *, is_whole: bool = False
) -> Iterator[str]:
    """The lines of the picture. Of a long run only the last steps are drawn, unless the whole is wanted."""
    every = steps(description, history)
    shown = every if is_whole else every[-STEPS_SHOWN:]
    if not shown:
        return
    first = min(step.start for step in shown) if len(shown) < len(every) else description.summary.created_at
    last = description.summary.finished_at or now
    name_max = min(_NAME_MAX, (screen.width or 3 * _NAME_MAX) // 3)
    labels = [cut(visible(step.label), name_max, screen) for step in shown]
    places = [cut(visible(step.position), _POSITION_MAX, screen) for step in shown]
    took = [_took(step, now) for step in shown]
    widths = [max(map(width_of, texts)) for texts in (places, labels, took)]
    widths[0] = max(widths[0], len("STEP"))
    room = (screen.width or 100) - sum(widths) - 6
    scale = Scale.of(shown, first, max(first, last), max(_BAR_LEAST, min(_BAR_MAX, room)))
    if len(shown) < len(every):
        yield screen.style(
            f"{plural(len(every) - len(shown), 'earlier step')} left out: --all draws them", None, dim=True
        )
    yield screen.style(_axis(scale, widths, now, screen), None, dim=True)
    for step, place, label, took_text in zip(shown, places, labels, took, strict=True):
        drawn = bar(step, scale, now, screen)
        yield f"{padded(place, widths[0])}  {padded(label, widths[1])}  {drawn}  {took_text}".rstrip()
        yield from _failures(step, now, screen, is_whole=is_whole)


def _took(step: Step, now: datetime) -> str:
    """How long a step took, and with how many attempts; for a mark, the reason."""
    if step.kind in _MARKS:
        return visible(step.reason or "")
    text = duration((step.end or now) - step.start)
    # The attempt that an open activity is at counts as well.
    count = len(step.attempts)
    return f"{text}, {count} attempts" if count > 1 else text


def _axis(scale: Scale, widths: list[int], now: datetime, screen: Screen) -> str:
    """The heading: where the bars begin and end in time."""
    begin, end = (clock_time(moment, now, screen.zone) for moment in (scale.first, scale.last))
    note = "not to scale" if scale.is_squeezed else ""
    gap = scale.width - width_of(begin) - width_of(end)
    middle = note.center(gap) if gap >= len(note) + 2 else " " * gap
    times = f"{begin}{middle}{end}" if gap > 0 else padded(begin, scale.width)
    return f"{padded('STEP', widths[0] + widths[1] + 2)}  {times}  TOOK"


def _failures(step: Step, now: datetime, screen: Screen, *, is_whole: bool) -> Iterator[str]:
    """A line for each failed attempt below its step; the last few of many."""
    failed = [(number, attempt) for number, attempt in enumerate(step.attempts, start=1) if attempt.error is not None]
    shown = failed if is_whole else failed[-FAILURES_SHOWN:]
    if len(shown) < len(failed):
        yield screen.style(f"      {plural(len(failed) - len(shown), 'earlier failed attempt')}", None, dim=True)
    for number, attempt in shown:
        when = clock_time(attempt.end or now, now, screen.zone)
        line = f"      attempt {number} failed {when}  {attempt.error}"
        yield screen.style(line if screen.width is None else cut(line, screen.width, screen), "red")
    if step.next_try is not None:
        line = f"      attempt {len(step.attempts) + 1} at {clock_time(step.next_try, now, screen.zone)}"
        yield screen.style(f"{line} (in {duration(step.next_try - now)})" if step.next_try > now else line, None)
