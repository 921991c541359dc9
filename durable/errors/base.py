"""The root of the tree, and what stands outside it."""

from __future__ import annotations

from typing import ClassVar


class DurableError(Exception):
    """The base of every error that durable raises on purpose. `says` is its message, with the names of its fields."""

    says: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.says.format_map(vars(self)) if self.says else super().__str__()

    def __reduce__(self) -> tuple[type[DurableError], tuple[object, ...]]:
        # Frozen fields are set by __init__ only, so a copy is built from them and not patched.
        return type(self), self.args


class InvariantViolated(Exception):
    """A bug in durable; please report it. Not a `DurableError`, so nobody handles it by accident."""
