"""Definitions that clash, or are missing. Raised when code is imported, or when an engine starts."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


class RegistrationError(DurableError):
    """The workflows registered in this process do not fit together."""


@attrs.frozen(slots=False)
class UnknownWorkflow(RegistrationError):
    """No workflow with this name and version is registered in this process."""

    name: str
    version: int

    says = (
        "no workflow {name!r} version {version} is registered: import the module that defines it "
        "before the engine starts, or pass it in workflows=[...]"
    )


@attrs.frozen(slots=False)
class DuplicateWorkflow(RegistrationError):
    """Two different functions claim the same workflow name and version.

    `first` and `second` say where they are defined. Defining the same function again, by a reload, is allowed.
    """

    name: str
    version: int
    first: str
    second: str

    says = (
        "workflow {name!r} version {version} is defined by both {first} and {second}: "
        "give one of them another name= or version="
    )


@attrs.frozen(slots=False)
class DuplicateActivity(RegistrationError):
    """Two functions of one module claim the same activity name."""

    name: str
    first: str
    second: str

    says = "activity {name!r} is defined by both {first} and {second}: give one of them another name"
