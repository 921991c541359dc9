"""Operations where a value belongs: someone forgot to run one and is now trying to store it.

The codec knows nothing about operations. Operations derive from `Unfinished`, and the codec asks them for their remedy.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import encode


class Unfinished:
    """The base of everything that must run before it has a value. It cannot be stored under any annotation."""

    __slots__ = ()

    @property
    def remedy(self) -> str:
        """What to do instead of storing it."""
        raise NotImplementedError


class _NotRun(Exception):
    """Carries the remedy out of the JSON encoder, which stops at the first unfinished operation."""


def remedy_in(value: Any) -> str | None:
    """The remedy of the first unfinished operation in a refused value; None if it contains none."""
    try:
        encode(value, enc_hook=_look)
    except _NotRun as error:
        return str(error)
    except Exception:
        # The value was refused for another reason.
        return None
    return None


def _look(value: Any) -> Any:
    if isinstance(value, Unfinished):
        raise _NotRun(value.remedy)
    raise TypeError
