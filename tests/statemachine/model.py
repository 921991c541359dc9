"""What the public API promises, as a small model: plain values, one clock, no storage, no engine.

It knows the programs of `program.py`, and predicts every reply, status, result and pending event. Time is in
microseconds. The consequences of a decision are handled in order: answers first, then cancels of children, then events
that have lost their target.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from tests.statemachine.flow import Flow, Refused, Sent

SECOND = 1_000_000
RETENTION = 7 * 86_400 * SECOND


class Model:
    """All workflows and all events."""

    def __init__(self, now: int, *, limit: int, policy: str) -> None:
        self.now = now
        self.limit = limit
        self.policy = policy
        self.serial = 0
        self.flows: dict[str, Flow] = {}
        self.delays: dict[str, int] = {}
        self.queue: list[Sent] = []
        # The broadcasts that a workflow has taken: they do not count as pending.
        self.taken: set[int] = set()
        self.unstarted: dict[str, list[Sent]] = {}
        self.letters: list[tuple[Sent, str | None]] = []
        self.ids: dict[str, tuple[Any, Any, int]] = {}
        self._checks: deque[tuple[Flow, int, int]] = deque()
        self._cancels: deque[Flow] = deque()
        self._offers: deque[Sent] = deque()
        self._rounds: deque[Flow] = deque()

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def find(self, id: str) -> Flow:
        """The workflow, or the refusal."""
        if id not in self.flows:
            raise Refused("WorkflowNotFound")
        return self.flows[id]

    # --- calls ----------------------------------------------------------------------------------------------------

    def start(self, id: str, steps: tuple[str, ...], delay: int) -> str:
        """Start a workflow. The same call again finds the first."""
        if id in self.flows:
            if (flow := self.flows[id]).call != steps or (not flow.round and self.delays.get(id, 0) != delay):
                raise Refused("WorkflowAlreadyExists")
            return id
        self.delays[id] = delay
        self._begin(Flow(id, steps, steps, self._next(), self.now + delay * SECOND))
        self.settle()
        return id

    def _begin(self, flow: Flow) -> None:
        self.flows[flow.id] = flow
        flow.mail = self.unstarted.pop(flow.id, [])
        if flow.now > self.now:
            flow.due = flow.now
        else:
            self._run(flow)

    def send(self, content: tuple[str, str, int], to: str | None, event_id: str | None, *, early: bool) -> Any:
        """Send an event. Returns who took it, or None if it is kept."""
        if event_id is not None and event_id in self.ids:
            first, answer, _ = self.ids[event_id]
            if first != (content, to):
                raise Refused("EventConflict")
            return answer
        target = self.flows.get(to) if to is not None else None
        if to is not None and target is None and not early:
            raise Refused("WorkflowNotFound")
        if target is not None and target.has_ended:
            raise Refused("WorkflowTerminated")
        name, key, payload = content
        expires = self.now + 100 * SECOND if name == "news" else None
        event = Sent(self._next(), name, key, payload, self.now, expires, name == "news" and to is None)
        answer = self._deliver(event, target, to)
        if event_id is not None:
            self.ids[event_id] = ((content, to), answer, self.now)
        self.settle()
        return answer

    def _deliver(self, event: Sent, target: Flow | None, to: str | None) -> tuple[str, ...] | None:
        if target is not None:
            if self._fits(target, event):
                self._take(target, event)
                return (target.id,)
            self._keep(target.mail, event)
        elif to is not None:
            self._keep(self.unstarted.setdefault(to, []), event)
        else:
            if event.is_broadcast:
                self._keep(self.queue, event)
            takers = self._offer(event)
            if takers:
                return takers
            if not event.is_broadcast:
                self._keep(self.queue, event)
        return None

    def _keep(self, box: list[Sent], event: Sent) -> None:
        counted = box
        if box is self.queue:
            counted = [sent for sent in box if sent.name == event.name and sent.serial not in self.taken]
        if len(counted) >= self.limit:
            raise Refused("PendingEventsFull")
        box.append(event)

    def pending(self) -> list[Sent]:
        """Every event that was accepted and not taken."""
        boxes = [*self.unstarted.values(), *(flow.mail for flow in self.flows.values())]
        return [*self.queue, *(event for box in boxes for event in box)]

    def _offer(self, event: Sent) -> tuple[str, ...]:
        """Offer an event to the longest wait, or a broadcast to all."""
        waiting = [flow for flow in self.flows.values() if self._fits(flow, event)]
        waiting.sort(key=lambda flow: flow.wait[2] if flow.wait else 0)
        takers = waiting if event.is_broadcast else waiting[:1]
        for flow in takers:
            self._take(flow, event)
        return tuple(flow.id for flow in takers)

    def _fits(self, flow: Flow, event: Sent) -> bool:
        if flow.wait is None or flow.wait[:2] != (event.name, event.key):
            return False
        if event.expires is not None and event.expires <= self.now:
            return False
        after = {"fresh": flow.wait[2], "since": flow.number}.get(event.name, 0)
        return event.serial > after and not (
            event.is_broadcast and event.serial <= flow.seen.get((event.name, event.key), 0)
        )

    def _take(self, flow: Flow, event: Sent) -> None:
        if event.is_broadcast:
            flow.seen[event.name, event.key] = event.serial
            self.taken.add(event.serial)
        self._learn(flow, event.payload)

    def cancel(self, id: str) -> bool:
        """Raise `Cancelled` in a workflow."""
        flow = self.find(id)
        if flow.has_ended:
            return False
        self._cancel(flow)
        self.settle()
        return True

    def _cancel(self, flow: Flow) -> None:
        """Raise `Cancelled` at the wait. A body may clean up once; a second cancel ends the cleanup."""
        is_first, flow.is_cancelled = not flow.is_cancelled, True
        if is_first and flow.state == "waiting" and flow.steps[flow.at] == "tidy":
            flow.state, flow.wait, flow.attempt = "cleaning", None, 1
        else:
            self._end(flow, "cancelled")

    def terminate(self, id: str) -> bool:
        """End a workflow at once."""
        flow = self.find(id)
        if flow.has_ended:
            return False
        flow.is_cancelled = True
        self._end(flow, "cancelled")
        self.settle()
        return True

    def answer(self, id: str, value: int | None) -> None:
        """The running activity of a workflow ends, with a value or an error."""
        flow = self.flows[id]
        if flow.state == "cleaning":
            self._end(flow, "cancelled")
        elif value is not None:
            self._learn(flow, value)
        elif flow.attempt == 1 and flow.steps[flow.at] == "work":
            flow.state, flow.attempt, flow.due = "retrying", 2, self.now + 10 * SECOND
        else:
            self._end(flow, "failed")
        self.settle()

    def replay(self, payload: int, to: str | None) -> Any:
        """Send a dead letter again."""
        letter = self._letter(payload)
        # It is an event like any other now: a broadcast that was sent to one workflow no longer expires.
        target = self.flows.get(to) if to is not None else None
        if to is not None and target is None:
            raise Refused("WorkflowNotFound")
        if target is not None and target.has_ended:
            raise Refused("WorkflowTerminated")
        event = attrs.evolve(letter[0], serial=self._next(), at=self.now, expires=None)
        answer = self._deliver(event, target, to)
        self.letters.remove(letter)
        self.settle()
        return answer

    def remove(self, payload: int) -> None:
        """Remove a dead letter."""
        self.letters.remove(self._letter(payload))

    def _letter(self, payload: int) -> tuple[Sent, str | None]:
        """The oldest letter with this payload. An event that is sent again after a week may die twice."""
        letters = [letter for letter in self.letters if letter[0].payload == payload]
        if not letters:
            raise Refused("DeadLetterNotFound")
        return min(letters, key=lambda letter: letter[0].serial)

    def purge(self, seconds: int) -> int:
        """Remove workflows that ended long ago, except children of unfinished parents."""
        gone = [
            flow for flow in self.flows.values()
            if flow.has_ended and flow.finished < self.now - seconds * SECOND
            and (flow.parent is None or flow.parent.has_ended)
        ]  # fmt: skip
        for flow in gone:
            del self.flows[flow.id]
        return len(gone)

    def advance(self, seconds: int) -> None:
        """Let time pass: due timers fire, earliest first, then old events are swept."""
        self.now += seconds * SECOND
        due = [flow for flow in self.flows.values() if flow.due is not None and flow.due <= self.now]
        for flow in sorted(due, key=lambda flow: (flow.due, flow.number)):
            self._wake(flow)
            self._follow()
        self._sweep(self.queue, None)
        for id, box in self.unstarted.items():
            self._sweep(box, id)
        self.ids = {id: row for id, row in self.ids.items() if row[2] >= self.now - RETENTION}
        self.settle()

    def _sweep(self, box: list[Sent], owner: str | None) -> None:
        """Expired events and old broadcasts are dropped. Other old events become dead letters."""
        for event in list(box):
            is_expired = event.expires is not None and event.expires <= self.now
            is_old = event.at < self.now - RETENTION
            if is_expired or is_old:
                box.remove(event)
            if is_old and not is_expired and not event.is_broadcast:
                self.letters.append((event, owner))

    def _wake(self, flow: Flow) -> None:
        if flow.due is None or flow.due > self.now:
            return
        if flow.state == "unstarted":
            flow.due = None
            self._run(flow)
            # Pending events come before the timeout of a new wait.
            self._follow()
            self._wake(flow)
        elif flow.state == "retrying":
            flow.state, flow.due = "working", None
        else:
            self._learn(flow, 0 if flow.state == "sleeping" else -1)

    # --- bodies ---------------------------------------------------------------------------------------------------

    def _learn(self, flow: Flow, value: int) -> None:
        flow.results.append(value)
        flow.at += 1
        flow.now = max(flow.now, self.now)
        flow.wait = flow.due = None
        flow.attempt = 1
        self._run(flow)

    def _run(self, flow: Flow) -> None:
        """Run to the next wait."""
        if flow.at == len(flow.steps):
            self._end(flow, "succeeded")
            return
        step = flow.steps[flow.at]
        if step == "again":
            self._rounds.append(flow)
        elif step == "work":
            flow.state = "working"
        elif step == "brisk":
            flow.state, flow.due = "working", flow.now + 20 * SECOND
        elif step == "sleep":
            flow.state, flow.due = "sleeping", flow.now + 60 * SECOND
        elif step.startswith("child:"):
            flow.state = "parent"
            self._checks.append((flow, flow.round, flow.at))
        else:
            name, _, key = step.partition("@")
            flow.state, flow.wait = "waiting", (name if name not in ("soon", "tidy") else "go", key, self._next())
            flow.due = flow.now + 30 * SECOND if step == "soon" else None
            self._checks.append((flow, flow.round, flow.at))

    def _end(self, flow: Flow, how: str) -> None:
        if flow.state == "parent" and (child := self._child(flow)) is not None and child.parent is flow:
            self._cancels.append(child)
        flow.state = "cancelled" if flow.is_cancelled else how
        flow.wait = flow.due = None
        flow.finished = self.now
        for event in sorted(flow.mail, key=lambda event: event.serial):
            if self.policy == "move to broadcast":
                self._offers.append(event)
            elif self.policy == "move to dead letter":
                self.letters.append((event, flow.id))
        flow.mail = []
        if flow.parent is not None:
            self._checks.append((flow.parent, flow.parent.round, flow.parent.at))

    def _child(self, flow: Flow) -> Flow | None:
        return self.flows.get(f"{flow.id}.{flow.round}.{flow.at}")

    # --- consequences ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Handle all consequences of a call, then the next rounds."""
        self._follow()
        while self._rounds:
            flow = self._rounds.popleft()
            flow.steps, flow.at, flow.round = flow.steps[flow.at + 1 :], 0, flow.round + 1
            flow.now = self.now
            self._run(flow)
            self._follow()

    def _follow(self) -> None:
        while self._checks or self._cancels or self._offers:
            if self._checks:
                flow, number, at = self._checks.popleft()
                if not flow.has_ended and (flow.round, flow.at) == (number, at):
                    self._check(flow)
            elif self._cancels:
                child = self._cancels.popleft()
                # A child that is already being cancelled finishes its cleanup.
                if not child.has_ended and not child.is_cancelled:
                    self._cancel(child)
            else:
                lost = self._offers.popleft()
                event = attrs.evolve(lost, serial=self._next())
                if not self._offer(event):
                    self.queue.append(event)

    def _check(self, flow: Flow) -> None:
        """A wait has begun or a child has ended: look for the answer."""
        if flow.state == "waiting":
            for box in (flow.mail, self.queue):
                event = next((candidate for candidate in box if self._fits(flow, candidate)), None)
                if event is not None:
                    if not event.is_broadcast:
                        box.remove(event)
                    self._take(flow, event)
                    return
        elif flow.state == "parent":
            child = self._child(flow)
            if child is None:
                steps = tuple(flow.steps[flow.at].removeprefix("child:").split(","))
                id = f"{flow.id}.{flow.round}.{flow.at}"
                self._begin(Flow(id, steps, steps, self._next(), self.now, parent=flow))
            elif child.parent is not flow or child.state in ("failed", "cancelled"):
                self._end(flow, "failed")
            elif child.state == "succeeded":
                self._learn(flow, sum(child.results))

    # --- what is visible ------------------------------------------------------------------------------------------

    def describe(self, id: str) -> dict[str, Any]:
        """What a workflow waits for."""
        return self.flows[id].describe()

    def picture(self) -> dict[str, Any]:
        """Everything that an engine shows too."""
        owners = {id(event): flow.id for flow in self.flows.values() for event in flow.mail}
        early = {id(event): name for name, box in self.unstarted.items() for event in box}
        alive = [event for event in self.pending() if event.expires is None or event.expires > self.now]
        return {
            "flows": {
                flow.id: (flow.status, _json(flow.results) if flow.state == "succeeded" else None, flow.due)
                for flow in self.flows.values()
            },
            "rounds": {flow.id: flow.round for flow in self.flows.values()},
            "pending": [
                (event.name, event.key, owners.get(id(event)), early.get(id(event)), str(event.payload))
                for event in sorted(alive, key=lambda event: event.serial)
            ],
            "letters": [
                (event.name, event.key, owner, str(event.payload))
                for event, owner in sorted(self.letters, key=lambda letter: letter[0].serial)
            ],
            "running": {
                (flow.id, flow.attempt) for flow in self.flows.values() if flow.state in ("working", "cleaning")
            },
            "ids": set(self.ids),
        }


def _json(values: list[int]) -> str:
    return "[" + ",".join(map(str, values)) + "]"
