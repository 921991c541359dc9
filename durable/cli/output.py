"""How results are written: as a table for people, as JSON or ids for programs.

`Screen` says what the other end can show; everything else here is a pure function of values and a screen. Texts from
the store are data of users: control characters in them are shown as escapes, so that no id can move the cursor.
JSON is never cut. A table is cut only in its last column, and only on a terminal.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Generic, TypeVar

import attrs
import click

from durable.model.statuses import WorkflowStatus

T = TypeVar("T")
FORMATS = ("table", "json", "jsonl", "ids")
STREAMS = ("table", "jsonl", "ids")
STATUS_COLOURS = {
    WorkflowStatus.RUNNING: "cyan",
    WorkflowStatus.SUSPENDED: "blue",
    WorkflowStatus.PARKED: "yellow",
    WorkflowStatus.SUCCEEDED: "green",
    WorkflowStatus.FAILED: "red",
    WorkflowStatus.CANCELLED: "magenta",
}
# With less width than this, the last column of a table moves below the others, after this indentation.
_LAST_LEAST, _BELOW = 16, "    "


@attrs.frozen(kw_only=True)
class Screen:
    """What the reader can see. `width` is None if nothing may be cut, `zone` None for the zone of this machine."""

    width: int | None = None
    has_colour: bool = False
    has_unicode: bool = True
    is_terminal: bool = False
    zone: tzinfo | None = None

    def style(self, text: str, colour: str | None, *, bold: bool = False, dim: bool = False) -> str:
        """The text in a colour, if there are colours."""
        return click.style(text, fg=colour, bold=bold or None, dim=dim or None) if self.has_colour else text


def screen() -> Screen:
    """The screen that stdout is. `NO_COLOR` turns colours off, and a pipe turns off colours and cutting."""
    is_terminal = sys.stdout.isatty()
    encoding = (sys.stdout.encoding or "ascii").lower()
    return Screen(
        width=shutil.get_terminal_size().columns if is_terminal else None,
        has_colour=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        has_unicode=encoding.startswith("utf"),
        is_terminal=is_terminal,
    )


# --- texts ----------------------------------------------------------------------------------------------------------


def visible(text: str) -> str:
    """A text in one line, with control characters as escapes."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int, screen: Screen) -> str:
    """A text of at most this many cells, with a mark at the end if some of it is missing."""
    if width_of(text) <= width:
        return text
    mark = "…" if screen.has_unicode else "..."
    kept, used = "", len(mark)
    for character in text:
        used += _cells(character)
        if used > width:
            break
        kept += character
    return kept + mark


def padded(text: str, width: int) -> str:
    """A text with blanks up to this many cells."""
    return text + " " * (width - width_of(text))


def compact(value: Any) -> str:
    """A JSON value in one line, for people: a text without quotes."""
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


# --- tables ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Column(Generic[T]):
    """A column of a table: its title, the text in it, and the colour of that text."""

    title: str
    text: Callable[[T], str]
    colour: Callable[[T], str | None] | None = None


def table(columns: Sequence[Column[T]], items: Sequence[T], screen: Screen) -> Iterator[str]:
    """The lines of a table, a heading first. Columns without any text are left out."""
    cells = [[visible(column.text(item)) for column in columns] for item in items]
    shown = [place for place in range(len(columns)) if any(row[place] for row in cells)]
    if not shown:
        return
    widths = {place: max(width_of(columns[place].title), *(width_of(row[place]) for row in cells)) for place in shown}
    *body, last = shown
    left = sum(widths[place] + 2 for place in body)
    room = widths[last] if screen.width is None else screen.width - left
    # On a narrow screen the last column gets lines of its own.
    is_narrow = room < min(_LAST_LEAST, widths[last])

    def lines(texts: list[str], colours: list[str | None], *, dim: bool = False) -> Iterator[str]:
        parts = [screen.style(padded(texts[place], widths[place]), colours[place], dim=dim) for place in body]
        if not is_narrow:
            parts.append(screen.style(cut(texts[last], room, screen), colours[last], dim=dim))
        yield "  ".join(parts).rstrip()
        if is_narrow and texts[last]:
            below = cut(texts[last], max(_LAST_LEAST, (screen.width or 0) - len(_BELOW)), screen)
            yield _BELOW + screen.style(below, colours[last], dim=dim)

    yield from lines([column.title for column in columns], [None] * len(columns), dim=True)
    for item, texts in zip(items, cells, strict=True):
        yield from lines(texts, [None if column.colour is None else column.colour(item) for column in columns])


def status_colour(status: WorkflowStatus) -> str:
    """The colour of a status."""
    return STATUS_COLOURS[status]


# --- JSON -----------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as JSON types: classes become objects, enums their values, instants ISO texts, durations seconds."""
    match value:
        case enum.Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if attrs.has(type(value)):
            return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value)) if field.repr}
        case _:
            return value


def dump(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON text. Whatever is not JSON becomes text: output must not fail for one odd value."""
    return json.dumps(plain(value), ensure_ascii=False, default=str, indent=indent)


@attrs.frozen(kw_only=True)
class Listing(Generic[T]):
    """How a list of items is written. `row` is an item as a JSON object, with at least `id`, `name` and `status`."""

    columns: Sequence[Column[T]]
    row: Callable[[T], dict[str, Any]]

    def write(self, items: Iterable[T], form: str, screen: Screen, *, nothing: str) -> int:
        """Write all items, and return how many there were. `nothing` is said on stderr for an empty table."""
        if form == "table":
            return self._table(list(items), screen, nothing)
        count = 0
        before = "["
        for item in items:
            count += 1
            data = self.row(item)
            match form:
                case "ids":
                    click.echo(visible(str(data["id"])))
                case "jsonl":
                    click.echo(dump(data))
                case _:
                    click.echo(f"{before}\n{dump(data)}", nl=False)
                    before = ","
        if form == "json":
            click.echo("\n]" if count else "[]")
        return count

    def _table(self, items: list[T], screen: Screen, nothing: str) -> int:
        for line in table(self.columns, items, screen):
            click.echo(line, color=screen.has_colour)
        if not items:
            click.echo(nothing, err=True)
        return len(items)


def output_option(formats: Sequence[str] = FORMATS) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `-o`. Its default is a table."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(formats),
        default="table",
        show_default=True,
        help="How to write the result. JSON is never cut.",
    )


say = functools.partial(click.echo, err=True)
