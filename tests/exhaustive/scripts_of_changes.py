"""What clients, operators and deployments do to the workflows of `flows_of_changes`."""

from __future__ import annotations

from durable.engine.operations import ForkWorkflow, RepairWorkflow, RetryWorkflow
from tests.exhaustive import flows_of_changes as flows
from tests.exhaustive.scripts import Deploy, Let, Mend, Script, Wait, go_of, start_of

SCRIPTS_OF_CHANGES = (
    Script("loop", (start_of(flows.collector(1)), *map(go_of, (1, 2, 3, 4))), 10, 22, 10),
    Script("loops in branches", (start_of(flows.weaver()), Wait(25), Wait(25), Wait(25), go_of(5)), 6, 17, 7),
    Script("loop in a loop", (start_of(flows.table()),), 7, 14, 7),
    Script("loop that fails late", (start_of(flows.hoarder()), Wait(25), Wait(25)), 10, 17, 10),
    Script(
        "code that changes",
        (
            start_of(flows.changing(), "done"), Let(), Wait(15),
            start_of(flows.changing(), "begun"),
            Deploy(), Wait(15),
            start_of(flows.changing(), "new"),
            *(go_of(number, to=id) for number, id in enumerate(("done", "begun", "new"))),
        ),
        18, 50, 18,
    ),
    Script(
        "code that changes under a step",
        (start_of(flows.changing()), Deploy(), Let(), go_of(1)),
        6, 25, 5,
    ),
    Script(
        "retry",
        (start_of(flows.master()), Wait(100), Mend(), RetryWorkflow("w"), go_of(5, to="w/1.1.0")),
        10, 34, 9, again=1,
    ),
    Script(
        "step removed under a wrong name",
        (start_of(flows.misnaming()), Deploy(), go_of(1)),
        3, 16, 3,
    ),
    Script(
        "fork",
        (
            start_of(flows.collector(2)), *map(go_of, (1, 2, 3)),
            ForkWorkflow("w", "0.2.1", "f"),
            go_of(4), go_of(5, to="f"), go_of(6, to="f"),
        ),
        16, 36, 16,
    ),
    Script(
        "repair",
        (
            start_of(flows.clerk()),
            RepairWorkflow("w", "0", "77", "counted twice"),
            go_of(5),
            RepairWorkflow("w", "2", "78", "paid by hand"),
            RetryWorkflow("w"),
        ),
        7, 29, 7,
    ),
)  # fmt: skip
