"""What stands for a value and is none: somebody has forgotten to run it, and now wants to store it.

The room that stores values knows no operations; it only asks a value of this kind what to say.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import encode


class Unfinished:
    """A value of this kind cannot be stored, whatever its annotation says."""

    __slots__ = ()

    @property
    def remedy(self) -> str:
        """What to do instead of storing it."""
        raise NotImplementedError


class _NotRun(Exception):
    """Found one."""


def remedy_in(value: Any) -> str | None:
    """What to do about the first thing in a refused value that has not run; None if there is none."""
    try:
        encode(value, enc_hook=_look)
    except _NotRun as error:
        return str(error)
    except Exception:
        # It was refused for another reason.
        return None
    return None


def _look(value: Any) -> Any:
    if isinstance(value, Unfinished):
        raise _NotRun(value.remedy)
    raise TypeError
