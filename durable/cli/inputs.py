"""What people pass to a command: arguments for a workflow, a payload, ids on stdin.

`-P key=value` is text, `-P key:=value` is JSON, `--input` is JSON, `--input-file` a file with JSON, `-` for stdin.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from durable.model.durations import parse_duration

# Says that nothing was passed, which differs from `null`.
MISSING = object()


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `-P`, `--input` and `--input-file`."""
    for option in (
        click.option("--input-file", metavar="FILE|-", help="A file with JSON; - reads stdin."),
        click.option("--input", "input_text", metavar="JSON", help="All of it as JSON."),
        click.option(
            "-P",
            "--param",
            "params",
            multiple=True,
            metavar="KEY=TEXT|KEY:=JSON",
            help="One value: `name=ann` is text, `count:=3` is JSON. May be repeated.",
        ),
    ):
        command = option(command)
    return command


def read_input(params: Sequence[str], input_text: str | None, input_file: str | None) -> Any:
    """The value that these options say; `MISSING` if none was used. Raises `click.UsageError`."""
    if sum((bool(params), input_text is not None, input_file is not None)) > 1:
        raise click.UsageError("use only one of -P, --input and --input-file")
    if params:
        return parse_params(params)
    if input_text is not None:
        return parse_json("--input", input_text)
    return MISSING if input_file is None else parse_json(f"--input-file {input_file}", _read(input_file))


def read_arguments(params: Sequence[str], input_text: str | None, input_file: str | None) -> dict[str, Any]:
    """The arguments of a workflow that these options say; none if no option was used. Raises `click.UsageError`."""
    value = read_input(params, input_text, input_file)
    if value is MISSING:
        return {}
    if not isinstance(value, dict):
        raise click.UsageError("the arguments of a workflow are passed by name: write a JSON object, or use -P")
    return value


def duration_option(name: str, text: str) -> timedelta:
    """The duration in an option. Raises `click.UsageError`."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None


def parse_params(params: Sequence[str]) -> dict[str, Any]:
    """The object that `-P` options say. Raises `click.UsageError`."""
    values: dict[str, Any] = {}
    for param in params:
        key, equals, text = param.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise click.UsageError(f"-P {param}: write KEY=TEXT, or KEY:=JSON for numbers, lists and so on")
        if key in values:
            raise click.UsageError(f"-P {param}: {key!r} is given twice")
        values[key] = parse_json(f"-P {key}:=", text) if is_json else text
    return values


def parse_json(where: str, text: str) -> Any:
    """The value of a JSON text. Raises `click.UsageError`, with a hint for a text without quotes."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        hint = f"; for a text write '\"{text}\"'" if text.isidentifier() else ""
        raise click.UsageError(f"{where}: {text[:60]!r} is not JSON: {error}{hint}") from None
    except RecursionError:
        raise click.UsageError(f"{where}: this JSON is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"--input-file {name}: it is not UTF-8 text") from None
    except OSError as error:
        raise click.UsageError(f"--input-file {name}: {error.strerror}") from None


def expand_ids(words: Sequence[str]) -> Iterator[str]:
    """The ids among these words, each once; `-` stands for the ids on stdin, one per line."""
    seen: set[str] = set()
    for word in words:
        for id in _stdin_ids() if word == "-" else (word,):
            if id not in seen:
                seen.add(id)
                yield id


def _stdin_ids() -> Iterator[str]:
    if sys.stdin.isatty():
        click.echo("reading ids from this terminal, one per line; end with Ctrl-D", err=True)
    yield from filter(None, (line.rstrip("\r\n") for line in sys.stdin))
