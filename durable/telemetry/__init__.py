"""Seeing what happens: what workflow code can log and count about itself.

A workflow body runs again from its history after a restart or an eviction. A plain logger in it would write the same
line each time, and a counter would count twice. So:

    log = workflow_logger("shop")

    @workflow
    def checkout(order: Order) -> Durable[Receipt]:
        payment = yield from charge(order)
        log.info("paid by %s", payment.card)        # once, however often the body runs again

- `workflow_logger(name)` returns a logger that is silent while the body is replayed.
- `is_replaying()` returns whether a replay is running, for anything else that must not happen twice.

Activities do not need either: they run once per attempt, and ordinary loggers and counters work in them.

The engine logs to the logger `durable`: recovery, failed attempts, failed and parked workflows, suspects, dead letters,
drains. Each line is written after the commit that made it true, and carries `workflow_id`, `workflow_name`, `position`
and `attempt` as extra fields where it has them.

This package imports the runner and nothing imports it. The functions are defined in `durable.runner.logs`, because they
must know whether a body is being replayed.
"""

from durable.runner.logs import WorkflowLogger, is_replaying, workflow_logger

__all__ = ["WorkflowLogger", "is_replaying", "workflow_logger"]
