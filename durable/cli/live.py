"""Output that is drawn again and again: in place on a terminal, through rich, and one after the other in a pipe."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from durable.cli.output import Screen

# Draws the present state. Returns its lines, and whether it is the last.
Frame = Callable[[], tuple[list[str], bool]]


def refresh(frame: Frame, interval: float, screen: Screen) -> None:
    """Draw until a frame says that it is the last. Ctrl-C ends it, and leaves the last frame on the screen."""
    pause = threading.Event()
    if not screen.is_terminal:
        before: list[str] | None = None
        while True:
            lines, is_last = frame()
            if lines != before:
                click.echo("\n".join([*lines, ""]))
            before = lines
            if is_last:
                return
            pause.wait(interval)
    console = Console(no_color=not screen.has_colour, highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            lines, is_last = frame()
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
            if is_last:
                return
            pause.wait(interval)
