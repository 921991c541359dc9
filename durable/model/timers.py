"""Timers: an instant, and what wakes then. A timer belongs to a workflow or to a schedule, and says which.

A timer is a plain tuple: an engine holds a hundred thousand of them, and the garbage collector ignores tuples of
numbers and strings. Timers sort by instant. At the same instant schedules come before workflows, and each kind is in
the order of its keys. Stores return them in this order.
"""

from __future__ import annotations

from typing import Final, Literal, NewType, TypeAlias

# The number of a schedule in its table. It is another type than the key of a workflow, and mypy keeps them apart.
ScheduleKey = NewType("ScheduleKey", int)
WorkflowTimer: TypeAlias = tuple[int, Literal["workflow"], int]
ScheduleTimer: TypeAlias = tuple[int, Literal["schedule"], ScheduleKey]
Timer: TypeAlias = WorkflowTimer | ScheduleTimer
OF_WORKFLOW: Final = "workflow"
OF_SCHEDULE: Final = "schedule"


def schedule_key(serial: int) -> ScheduleKey:
    """The key of a new schedule. In the table of schedules keys count down; stores order timers by that.

    No other code may look at the sign.
    """
    return ScheduleKey(-serial)
