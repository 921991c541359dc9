"""What a store keeps about pauses: the question beside the wait, and the list of open pauses.

A pause is stored as a wait with a `Question`. The list joins it with its workflow, which need not be in memory.
"""

from __future__ import annotations

import attrs

from durable.backends.base import OpenPauses, WaitsFor, WaitsOf
from durable.model.records import EventWait, OpenPause, Question, WorkflowStatus
from durable.testing.conformance.kit import ALL, BackendFactory, Check, Store, by_key, by_place, same, wait, workflow

_SURE = Question('"sure?"', "bool")


def _pause(key: int, serial: int, position: str = "0", question: Question = _SURE) -> EventWait:
    return wait(key, serial, position, name="", question=question)


def check_question_round_trip(make: BackendFactory) -> None:
    """A question comes back with every field, and a wait for an event without one."""
    with Store(make) as store:
        full = Question('{"☃":[1,null]}', "Decision | None", 5)
        waits = [_pause(1, 9), _pause(1, 8, "1.0.2", full), wait(1, 7, "2")]
        store.save(waits_put=by_place(*waits))
        same(store.backend.find(WaitsOf(workflow_key=1)), waits)
        same(store.backend.find(WaitsFor(name="paid", event_key="", limit=ALL)), waits[2:])


def check_open_pauses(make: BackendFactory) -> None:
    """A pause is listed with all that a person needs to answer it, whatever the status of its workflow is."""
    with Store(make) as store:
        parked = workflow(2, id="w☃", name="other", round=3, status=WorkflowStatus.PARKED)
        asked = Question('{"☃":[1,null]}', "Decision | None", 5)
        store.save(
            workflows_new=by_key(workflow(1), parked),
            waits_put=by_place(_pause(1, 9, "1.0.2"), _pause(2, 8, question=asked), wait(1, 7)),
        )
        same(
            store.backend.find(OpenPauses(limit=ALL)),
            [
                OpenPause(
                    number=8, workflow_id="w☃", name="other", status=WorkflowStatus.PARKED, pause_id="3:0",
                    prompt={"☃": [1, None]}, expects="Decision | None", since_us=3000, expires_at_us=5,
                ),
                OpenPause(
                    number=9, workflow_id="workflow-1", name="order", status=WorkflowStatus.RUNNING, pause_id="1.0.2",
                    prompt="sure?", expects="bool", since_us=3000, expires_at_us=None,
                ),
            ],
        )  # fmt: skip


def check_pauses_are_filtered_and_paged(make: BackendFactory) -> None:
    """Pauses come by number, page by page: of one workflow, of workflows with one name, or of all."""
    with Store(make) as store:
        records = [workflow(1), workflow(2, name="other"), workflow(3)]
        pauses = [_pause(1, 30), _pause(2, 10), _pause(3, 20), _pause(1, 40, "1"), wait(1, 5, "2"), _pause(99, 6)]
        store.save(workflows_new=by_key(*records), waits_put=by_place(*pauses))

        def numbers(query: OpenPauses) -> list[int]:
            return [pause.number for pause in store.backend.find(query)]

        every = OpenPauses(limit=ALL)
        same(numbers(every), [10, 20, 30, 40])
        same(numbers(attrs.evolve(every, limit=2)), [10, 20])
        same(numbers(attrs.evolve(every, limit=2, after=20)), [30, 40])
        same(numbers(attrs.evolve(every, workflow_key=1)), [30, 40])
        same(numbers(attrs.evolve(every, workflow_key=1, after=30)), [40])
        same(numbers(attrs.evolve(every, name="order")), [20, 30, 40])
        same(numbers(attrs.evolve(every, name="order", workflow_key=3)), [20])
        same(numbers(attrs.evolve(every, name="order", workflow_key=2)), [])


def check_pauses_go(make: BackendFactory) -> None:
    """A pause that is dropped or purged with its workflow is no longer listed; one put again has its new question."""
    with Store(make) as store:
        store.save(
            workflows_new=by_key(workflow(1), workflow(2)),
            waits_put=by_place(_pause(1, 3), _pause(1, 4, "1"), _pause(2, 5)),
        )
        again = _pause(1, 3, question=Question('"really?"', "bool"))
        store.save(waits_dropped={(1, "1")}, workflows_purged={2}, waits_put=by_place(again))
        same([(pause.number, pause.prompt) for pause in store.backend.find(OpenPauses(limit=ALL))], [(3, "really?")])


CHECKS: tuple[Check, ...] = (
    check_question_round_trip,
    check_open_pauses,
    check_pauses_are_filtered_and_paged,
    check_pauses_go,
)
