"""What an operation is."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from durable.model.homes import schedule_home, workflow_home

A_co = TypeVar("A_co", covariant=True)


class Operation(Generic[A_co]):
    """Something for the coordinator to do. Its answer is an `A_co`, or a `DurableError` that the caller receives.

    A subclass only carries arguments. `coordinator.decisions` has the function that decides it.
    """

    # Whether it reads many rows from the store itself. Such a question is answered after the commit of its batch, so
    # it sees everything decided before it, such as a timer of the same batch that fired.
    is_list: ClassVar[bool] = False

    def home(self, shards: int) -> int | None:
        """The shard that decides it; None if every shard answers for itself, as with lists and sweeps."""
        return None

    def reads(self) -> tuple[str | int, ...]:
        """The workflows whose rows its decision reads, by id or key, as far as the operation tells.

        The rows for a whole batch are read at once (`State.prefetch`).
        """
        return ()


class OfWorkflow(Operation[A_co]):
    """An operation on the workflow with this `id`."""

    id: str

    def home(self, shards: int) -> int | None:
        return workflow_home(self.id, shards)

    def reads(self) -> tuple[str | int, ...]:
        return (self.id,)


class OfBody(Operation[None]):
    """An operation of the engine itself that steps the body of the workflow with this `key`."""

    key: int

    def reads(self) -> tuple[str | int, ...]:
        return (self.key,)


class OfSchedule(Operation[A_co]):
    """An operation on the schedule with this `name`."""

    name: str

    def home(self, shards: int) -> int | None:
        return schedule_home(self.name, shards)
