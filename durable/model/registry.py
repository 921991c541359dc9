"""Which function a stored workflow name means.

The decorator enters module-level workflows in `REGISTRY`; an engine copies it when it starts, or takes an explicit
list. It knows names and versions, not what a workflow is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from durable.errors import DuplicateWorkflow, UnknownWorkflow


class Named(Protocol):
    """What the registry needs to know of a workflow."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def origin(self) -> str: ...


D = TypeVar("D", bound=Named)


class Registry(Generic[D]):
    """Workflows by name and version."""

    def __init__(self, definitions: Iterable[D] = ()) -> None:
        self._known: dict[tuple[str, int], D] = {}
        for definition in definitions:
            self.add(definition)

    def add(self, definition: D) -> None:
        """Enter a workflow. Raises `DuplicateWorkflow` when another function has its name and version.

        The same function defined again (a module that is reloaded) replaces the first.
        """
        known = self._known.setdefault((definition.name, definition.version), definition)
        if known is definition:
            return
        if known.origin != definition.origin:
            raise DuplicateWorkflow(definition.name, definition.version, known.origin, definition.origin)
        self._known[definition.name, definition.version] = definition

    def get(self, name: str, version: int) -> D:
        """The workflow of this name and version. Raises `UnknownWorkflow`."""
        try:
            return self._known[name, version]
        except KeyError:
            raise UnknownWorkflow(name, version) from None

    def has(self, name: str, version: int) -> bool:
        """Whether this workflow is registered."""
        return (name, version) in self._known

    def __iter__(self) -> Iterator[D]:
        return iter(tuple(self._known.values()))
