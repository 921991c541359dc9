"""An error that cannot be rebuilt from its arguments, in its own module so that its name can be found."""

from __future__ import annotations


class CannotBeMade(Exception):
    """Takes two arguments and keeps one."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
