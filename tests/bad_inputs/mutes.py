"""An error that its arguments cannot make again, in a module of its own so that its name can be found."""

from __future__ import annotations


class CannotBeMade(Exception):
    """Takes two arguments and keeps one."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
