"""Maps a stored workflow name and version to the function that runs it.

The decorator adds module-level workflows to `REGISTRY`. An engine copies that when it starts, or takes an explicit
list. A registry knows names and versions; it does not know what a workflow is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from durable.errors import DuplicateWorkflow, UnknownWorkflow

# Instead of a version: the newest that is registered.
NEWEST = 0


class Named(Protocol):
    """What the registry needs from a workflow definition. `origin` says where its function is defined."""

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
        """Add a workflow. Raises `DuplicateWorkflow` if another function has its name and version.

        The same function defined again, by a reload of its module, replaces the first.
        """
        current = self._known.setdefault((definition.name, definition.version), definition)
        if current is definition:
            return
        if current.origin != definition.origin:
            raise DuplicateWorkflow(definition.name, definition.version, current.origin, definition.origin)
        self._known[definition.name, definition.version] = definition

    def get(self, name: str, version: int) -> D:
        """The workflow with this name and version, or its `NEWEST` version. Raises `UnknownWorkflow`."""
        if version == NEWEST:
            version = max((number for known, number in self._known if known == name), default=1)
        try:
            return self._known[name, version]
        except KeyError:
            raise UnknownWorkflow(name, version) from None

    def has(self, name: str, version: int) -> bool:
        """Whether this workflow is registered."""
        return (name, version) in self._known

    def __iter__(self) -> Iterator[D]:
        return iter(tuple(self._known.values()))
