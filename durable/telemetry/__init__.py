"""Seeing what happens: what workflow code can say about itself.

`workflow_logger(name)` is a logger that stays silent while a body is replayed, so each line is written once.
`is_replaying()` tells the same to anything else that must not happen twice, a counter for example. The engine's own log
is the logger `durable`; its lines carry `workflow_id`, `workflow_name`, `position` and `attempt` as extra fields.
"""

from durable.runner.logs import WorkflowLogger, is_replaying, workflow_logger

__all__ = ["WorkflowLogger", "is_replaying", "workflow_logger"]
