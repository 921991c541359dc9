"""Tells observers about attempts, where they run, and puts each into the context of its workflow's trace.

Used in the event loop. `ActivityPool` has one only if somebody observes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from durable.engine.host.reporter import Reporter
from durable.engine.operations import RecordActivity, RunActivity
from durable.engine.operations.facts import AttemptBegun, AttemptFinished, Notice
from durable.model.clock import SECOND, Clock
from durable.model.error_codec import error_summary


class Witness:
    """Sees attempts begin and end."""

    def __init__(self, reporter: Reporter, clock: Clock) -> None:
        self._tell = reporter.tell
        self._carrier = reporter.carrier
        self._clock = clock
        # When each attempt that runs has begun, by the identity of its effect.
        self._began: dict[int, float] = {}
        self._has_complained = False

    @contextlib.contextmanager
    def attend(self, effect: RunActivity) -> Iterator[None]:
        """An attempt runs inside of this."""
        begun = AttemptBegun(**_about(effect, self._clock.now()), trace=effect.trace, started_at_us=effect.started_at)
        self._began[id(effect)] = self._clock.monotonic()
        self._tell(begun)
        context: Any = None
        if self._carrier is not None:
            with self._guarded():
                context = self._carrier.enter(begun)
                context.__enter__()
        try:
            yield
        finally:
            if context is not None:
                with self._guarded():
                    # Not the error of the activity: it is told as a fact.
                    context.__exit__(None, None, None)

    def ended(self, effect: RunActivity, answer: RecordActivity | None) -> None:
        """An attempt has ended in any way; without an answer nobody wants its result, or it was cut off."""
        now, began = self._clock.monotonic(), self._began.pop(id(effect), None)
        error_type = None
        if answer is not None and answer.error is not None:
            error_type = error_summary(answer.outcome)[0]
        fact = AttemptFinished(
            **_about(effect, self._clock.now()),
            outcome="stopped" if answer is None else "ok" if answer.error is None else "failed",
            took_us=0 if began is None else round((now - began) * SECOND),
            has_begun=began is not None,
            error_type=error_type,
        )
        self._tell(fact)

    def never_begun(self, effects: Iterable[RunActivity]) -> None:
        """These attempts were stopped while they were queued."""
        for effect in effects:
            self.ended(effect, None)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A carrier that raises must not fail the activity. Its first error is logged."""
        try:
            yield
        except Exception as error:
            if not self._has_complained:
                self._has_complained = True
                text = f"an observer failed to carry a trace into an activity: {error!r}"
                self._tell(Notice(at_us=self._clock.now(), level=logging.ERROR, text=text))


def _about(effect: RunActivity, now: int) -> dict[str, Any]:
    return {
        "at_us": now,
        "workflow_id": effect.workflow_id,
        "workflow_name": effect.workflow_name,
        "activity": effect.definition.name,
        "position": effect.position,
        "attempt": effect.attempt,
        "round": effect.round,
    }
