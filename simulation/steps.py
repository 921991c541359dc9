"""A random workflow program as a value: a tree of steps, and its form as text.

Programs can be written, read back and made smaller. What a step does is in `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import msgspec


@attrs.frozen(eq=False)
class Step:
    """One step of a program: which row runs it, its number, its settings, and the steps inside it.

    The number is part of the result of the step, so that no two results of a scenario can be confused.
    """

    op: str
    n: int = 0
    settings: dict[str, Any] = attrs.field(factory=dict)
    steps: tuple[Step, ...] = ()

    def __getitem__(self, setting: str) -> Any:
        return self.settings[setting]

    def walk(self) -> Iterator[Step]:
        """This step and all inside it."""
        yield self
        for step in self.steps:
            yield from step.walk()


# Caches: a body is rebuilt many times, reads the same text each time, and may write the same child each time.
_PROGRAMS: dict[str, Step] = {}
_TEXTS: dict[Step, str] = {}
_REMEMBERED = 4096


def write(step: Step) -> str:
    """A program as text."""
    text = _TEXTS.get(step)
    if text is None:
        text = msgspec.json.encode(to_json(step)).decode()
        _remember(text, step)
    return text


def read(text: str) -> Step:
    """The program of a text."""
    step = _PROGRAMS.get(text)
    if step is None:
        step = from_json(msgspec.json.decode(text))
        _remember(text, step)
    return step


def program_of(input: str) -> Step:
    """The program in a workflow's stored input."""
    return read(msgspec.json.decode(input)["program"])


def _remember(text: str, step: Step) -> None:
    if len(_PROGRAMS) > _REMEMBERED:
        _PROGRAMS.clear()
        _TEXTS.clear()
    _PROGRAMS[text] = step
    _TEXTS[step] = text


def to_json(step: Step) -> dict[str, Any]:
    """A program as a JSON value."""
    inner = {"steps": [to_json(inner) for inner in step.steps]} if step.steps else {}
    return {"op": step.op, "n": step.n} | step.settings | inner


def from_json(value: dict[str, Any]) -> Step:
    """The program of a JSON value."""
    settings = {name: setting for name, setting in value.items() if name not in ("op", "n", "steps")}
    return Step(value["op"], value["n"], settings, tuple(map(from_json, value.get("steps", ()))))
