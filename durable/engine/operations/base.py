"""What an operation is."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

A_co = TypeVar("A_co", covariant=True)


class Operation(Generic[A_co]):
    """Something for the coordinator to do; the answer is an `A_co`."""

    # It asks the store for many at once, so it comes after the commit of its batch: what was decided before it, a timer
    # that was due, say, is in the store by then.
    is_list: ClassVar[bool] = False
