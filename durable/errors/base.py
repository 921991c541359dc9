"""The root of the tree, and the one exception that stays outside it."""

from __future__ import annotations

from typing import ClassVar


class DurableError(Exception):
    """The base of every error that durable raises on purpose.

    `says` is the template of the message; it is filled with the fields of the error. A class without a template shows
    its arguments, as any exception does.
    """

    says: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.says.format_map(vars(self)) if self.says else super().__str__()

    def __reduce__(self) -> tuple[type[DurableError], tuple[object, ...]]:
        # Only __init__ can set frozen fields. The default would set attributes on the copy, and a frozen class refuses.
        return type(self), self.args


class InvariantViolated(Exception):
    """A bug in durable; please report it. Not a `DurableError`, so that no handler catches it by accident."""
