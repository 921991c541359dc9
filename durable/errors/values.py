"""A value that was passed or returned cannot be used.

`InvalidValue` and `WrongType` are about arguments and are raised before anything happens. `CodecError` is about
storing: a value must survive the way to JSON and back, or it is refused.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class _Refused(DurableError):
    """An argument cannot be used. `what` names it, as in `schedule: name`."""

    what: str
    problem: str

    says = "{what}: {problem}"


class InvalidValue(_Refused, ValueError):
    """An argument has the right type but a value that makes no sense."""


class WrongType(_Refused, TypeError):
    """An argument has a type that cannot be used here."""


@attrs.frozen(slots=False)
class CodecError(DurableError, ValueError):
    """A value cannot be stored as JSON and read back unchanged. `where` names the function and its parameter."""

    where: str
    problem: str

    says = "{where}: {problem}"


@attrs.frozen(slots=False)
class PayloadTooLarge(DurableError, ValueError):
    """A value is larger than `EngineConfig.max_payload_bytes`. Sizes are bytes of JSON text in UTF-8."""

    where: str
    size: int
    limit: int

    says = "{where}: {size} bytes exceed max_payload_bytes={limit}; store the data elsewhere and pass a reference to it"
