"""Names that a module gives away twice."""

from __future__ import annotations

import attrs

from durable.errors import RegistrationError


@attrs.frozen(slots=False)
class DuplicateActivity(RegistrationError):
    """Two functions of one module claim one activity name."""

    name: str
    first: str
    second: str

    says = "activity {name!r} is defined by both {first} and {second}: give one of them another name"
