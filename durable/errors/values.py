"""A value that was passed or returned cannot be used."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class _Refused(DurableError):
    """Something the caller passed cannot be used."""

    what: str
    problem: str

    says = "{what}: {problem}"


class InvalidValue(_Refused, ValueError):
    """An argument has the right type and a senseless value."""


class WrongType(_Refused, TypeError):
    """An argument has a type that cannot be used here."""


@attrs.frozen(slots=False)
class CodecError(DurableError, ValueError):
    """A value cannot be stored as JSON and read back as the same value."""

    where: str
    problem: str

    says = "{where}: {problem}"


@attrs.frozen(slots=False)
class PayloadTooLarge(DurableError, ValueError):
    """A value is larger than `EngineConfig.max_payload_bytes`."""

    where: str
    size: int
    limit: int

    says = (
        "{where}: {size} bytes are more than max_payload_bytes={limit}; "
        "store the data elsewhere and pass a reference to it"
    )
