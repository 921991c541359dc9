"""A workflow and an event, as the model sees them: plain values without any decision."""

from __future__ import annotations

from typing import Any

import attrs

ENDED = ("succeeded", "failed", "cancelled")


@attrs.define(eq=False)
class Sent:
    """An accepted event."""

    serial: int
    name: str
    key: str
    payload: int
    at: int
    expires: int | None
    is_broadcast: bool


@attrs.define(eq=False)
class Flow:
    """A workflow: its program, its progress, and its wait."""

    id: str
    call: tuple[str, ...]
    steps: tuple[str, ...]
    number: int
    # Its own time: that of its last entry.
    now: int
    parent: Flow | None = None
    results: list[int] = attrs.field(factory=list)
    at: int = 0
    round: int = 0
    # unstarted, working, retrying, cleaning, sleeping, waiting, parent, or its final status.
    state: str = "unstarted"
    due: int | None = None
    attempt: int = 1
    # The awaited event, its key, and the number of the wait.
    wait: tuple[str, str, int] | None = None
    mail: list[Sent] = attrs.field(factory=list)
    seen: dict[tuple[str, str], int] = attrs.field(factory=dict)
    is_cancelled: bool = False
    finished: int = 0

    @property
    def status(self) -> str:
        """The public status."""
        if self.state in ENDED:
            return self.state
        return "running" if self.state in ("working", "retrying", "cleaning") else "suspended"

    @property
    def has_ended(self) -> bool:
        """Whether the workflow has ended."""
        return self.state in ENDED

    @property
    def is_busy(self) -> bool:
        """Whether it has a running activity."""
        return self.state in ("working", "cleaning")

    def describe(self) -> dict[str, Any]:
        """What a workflow waits for."""
        step = self.steps[self.at] if self.at < len(self.steps) else ""
        waits = {
            "working": [("activity", f"machine.{step}", self.attempt)] + [("timer", "timer", 1)] * (step == "brisk"),
            "retrying": [("activity", "machine.work", self.attempt)],
            "cleaning": [("activity", "machine.clean", 1)],
            "sleeping": [("timer", "timer", 1)],
            "parent": [("child", "machine.program", 1)],
        }.get(self.state, [])
        if self.wait is not None:
            name, key, _ = self.wait
            waits = [("event", f"{name}[{key}]" if key else name, 1)] + [("timer", "timer", 1)] * (step == "soon")
        return {"waits": waits, "mail": len(self.mail), "cancelled": self.is_cancelled, "round": self.round}


class Refused(Exception):
    """The API refuses a call with the error of this name."""
