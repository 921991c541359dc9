"""Random calls of the public API, each made on an engine and on the model, which must agree.

The rules are the verbs of the API and what happens to a service: time, restarts, activities that end. `make` says which
engine is driven.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from durable import DeadLetterPolicy, Delivered, DurableError
from tests.statemachine.flow import Refused
from tests.statemachine.model import Model

LIMIT = 4
IDS = st.sampled_from("abc")
_STEPS = tuple("work work brisk soon soon sleep go go go@k fresh since news tidy again".split())
EVENTS = st.sampled_from([("go", ""), ("go", ""), ("go", "k"), ("fresh", ""), ("since", ""), ("news", "")])
STATUSES = st.sampled_from(["running", "suspended", "succeeded", "failed", "cancelled"])


Program = tuple[str, ...]


def program_of(number: int) -> Program:
    """The line of steps with this number. About every fourth step is a child with its own line.

    One number instead of lists of choices: hypothesis draws it much faster, and small numbers are short programs.
    """
    steps: list[str] = []
    while number or not steps:
        number, choice = divmod(number, len(_STEPS) * 4)
        step = _STEPS[choice % len(_STEPS)]
        if choice >= len(_STEPS) * 3:
            number, second = divmod(number, len(_STEPS))
            step = f"child:{step},{_STEPS[second]}"
        steps.append(step)
    return tuple(steps)


PROGRAMS = st.integers(0, (len(_STEPS) * 4) ** 4).map(program_of)
VERBS = ("cancel", "cancel", "terminate", "purge", "replay", "replay", "replay", "remove")


class Machine(RuleBasedStateMachine):
    """An engine and a model, side by side."""

    make: Callable[..., Any]

    def __init__(self) -> None:
        super().__init__()
        self.payload = 100
        self.broadcasts = 0
        self.has_crashed = False
        self.sent: dict[str, tuple[Any, ...]] = {}

    @initialize(policy=st.sampled_from(DeadLetterPolicy), loaded=st.sampled_from([1, 2, 1000]), a=PROGRAMS, b=PROGRAMS)
    def begin(self, policy: DeadLetterPolicy, loaded: int, a: Program, b: Program) -> None:
        """Create an engine with small limits, and two workflows."""
        self.engine = type(self).make(limit=LIMIT, policy=policy, loaded=loaded)
        self.model = Model(self.engine.now(), limit=LIMIT, policy=policy.value)
        for id, steps in zip("ab", (a, b), strict=True):
            self.both("start", id, self.fitting(steps), 0)

    def both(self, verb: str, *args: Any, **more: Any) -> None:
        """Make the same call on both: they must return the same answer or the same refusal."""
        try:
            expected: Any = getattr(self.model, verb)(*args, **more)
        except Refused as refusal:
            expected = str(refusal)
        try:
            answer = getattr(self.engine, verb)(*args, **more)
        except DurableError as error:
            answer = type(error).__name__
        if verb in ("send", "replay") and not isinstance(answer, str):
            answer = answer.to if isinstance(answer, Delivered) else None
        assert answer == expected, f"{verb}{args}: the engine says {answer}, the model {expected}"

    def some(self, pick: int) -> str:
        """A workflow that exists, or now and then one that does not."""
        ids = [*sorted(self.model.flows), "nobody"]
        return ids[pick % len(ids)]

    # --- calls: few rules with many forms, or hypothesis leaves most of them out of an example ----------------------

    @rule(id=IDS, steps=PROGRAMS, delay=st.sampled_from([0, 0, 40]), is_known=st.integers(0, 3))
    def start(self, id: str, steps: Program, delay: int, is_known: int) -> None:
        """A new id, an id that is taken by another call, or the same call again."""
        if is_known == 0 and id in self.model.flows:
            steps = self.model.flows[id].call
        self.both("start", id, self.fitting(steps), delay)

    def fitting(self, steps: Program) -> Program:
        """The steps, without activities if the engine has none."""
        if self.engine.has_activities:
            return steps
        return tuple(step for step in steps if not any(name in step for name in ("work", "brisk", "tidy")))

    @rule(event=EVENTS, pick=st.integers(-8, 9), event_id=st.sampled_from([None, None, "x", "y"]), early=st.booleans())
    def send(self, event: tuple[str, str], pick: int, event_id: str | None, early: bool) -> None:
        """Targeted or not, with an event id or without. A used id is a conflict."""
        if event[0] == "news":
            # Expired broadcasts count until they are swept, and nobody promises when. So there must not be too many of
            # them.
            if self.broadcasts == LIMIT:
                return
            self.broadcasts += 1
        to = None if pick < 0 or event[0] == "news" else "abc"[pick % 3] if early else self.some(pick)
        self.payload += 1
        call = ((*event, self.payload), to, event_id)
        if event_id is not None:
            self.sent.setdefault(event_id, call)
        self.both("send", *call, early=early)

    @rule(pick=st.integers(0, 9), form=st.sampled_from(["targeted", "untargeted", "x", "y"]))
    def serve(self, pick: int, form: str) -> None:
        """An event that a workflow waits for, or one that was sent before with the same id."""
        if form in self.sent and self.sent[form][0][0] != "news":
            self.both("send", *self.sent[form], early=False)
            return
        waiting = sorted((flow.id, flow.wait[:2]) for flow in self.model.flows.values() if flow.wait)
        if waiting:
            id, (name, key) = waiting[pick % len(waiting)]
            self.payload += 1
            if name != "news":
                to = id if form == "targeted" else None
                self.both("send", (name, key, self.payload), to, None, early=False)

    @rule(pick=st.integers(0, 9), to=st.integers(-5, 9), verb=st.sampled_from(VERBS))
    def operate(self, pick: int, to: int, verb: str) -> None:
        """Cancel or terminate a workflow, replay or remove a letter, or purge old workflows."""
        if verb in ("cancel", "terminate"):
            self.both(verb, self.some(pick))
        elif verb == "purge":
            self.both(verb, (0, 50, 500)[pick % 3])
        elif verb == "remove":
            self.both(verb, self.letter(pick))
        else:
            self.both(verb, self.letter(pick), None if to < 0 else self.some(to))

    def letter(self, pick: int) -> int:
        """The payload of a dead letter, or now and then an unknown one."""
        payloads = [*sorted(event.payload for event, _ in self.model.letters), 0]
        return payloads[pick % len(payloads)]

    # --- what happens ---------------------------------------------------------------------------------------------

    @rule(
        seconds=st.sampled_from([1, 10, 30, 91, 120, 8 * 86_400]),
        form=st.sampled_from(["time", "value", "value", "value", "error"]),
        pick=st.integers(0, 9),
    )
    def go_on(self, seconds: int, form: str, pick: int) -> None:
        """An activity ends, well or badly, or time passes."""
        if form != "time" and self.busy():
            self.payload += 1
            self.both("answer", self.busy()[pick % len(self.busy())], None if form == "error" else self.payload)
            return
        if self.model.policy == "move to broadcast":
            # An event that is older than the retention when it loses its target is swept, and nobody promises when.
            seconds = min(seconds, 120)
        self.both("advance", seconds)
        if seconds >= 120:
            # All broadcasts have expired and were swept.
            self.broadcasts = 0

    def busy(self) -> list[str]:
        """The workflows whose activities run."""
        return sorted(flow.id for flow in self.model.flows.values() if flow.is_busy)

    @rule(how=st.sampled_from(["stop", "crash", "evict"]), downtime=st.sampled_from([0, 0, 20, 70]))
    def disturb(self, how: str, downtime: int) -> None:
        """A clean restart, a crash, or the eviction of all bodies.

        There is no second crash before a clean stop: suspects would have to wait, which takes time.
        """
        if how == "evict":
            self.engine.evict()
        elif how == "stop" or not self.has_crashed:
            self.engine.restart(clean=how == "stop", downtime=downtime)
            self.has_crashed = how == "crash"
            self.model.advance(downtime)

    # --- questions ------------------------------------------------------------------------------------------------

    @rule(pick=st.integers(0, 9), status=STATUSES)
    def query(self, pick: int, status: str) -> None:
        """The status of a workflow, its waits, and the other workflows with this status."""
        id = self.some(pick)
        flow = self.model.flows.get(id)
        newest = sorted(self.model.flows.values(), key=lambda candidate: -candidate.number)
        fitting = [candidate for candidate in newest if candidate.status == status]
        assert self.engine.count(status) == len(fitting)
        assert self.engine.list(status, None) == [candidate.id for candidate in fitting]
        assert self.engine.status(id) == (flow and flow.status)
        if flow is not None:
            assert self.engine.list(status, id) == [
                candidate.id for candidate in fitting if candidate.number < flow.number
            ]
            assert self.engine.describe(id) == self.model.describe(id)

    @invariant()
    def same(self) -> None:
        """Both look the same after every call."""
        if hasattr(self, "engine"):
            picture, expected = self.engine.picture(), self.model.picture()
            for part, value in picture.items():
                assert value == expected[part], f"{part}: the engine has {value}, the model {expected[part]}"

    def teardown(self) -> None:
        """Close the engine."""
        if hasattr(self, "engine"):
            self.engine.close()
