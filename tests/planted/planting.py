"""How a bug is planted: replace one function of the engine wherever it was imported, and put it back afterwards.

This file knows no bug. Replacing a name that does not exist is an error, because a plant that replaces nothing proves
nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import attrs

from durable.engine.coordinator import decisions
from durable.engine.decide import queries
from durable.model.records import EntryKind
from durable.runner.kinds import KINDS

# How many seeds the search tries, starting with the seed that first noticed the bug. Programs and dice change over
# time.
BUDGET = 200


class Planter:
    """Replaces functions, and remembers the originals."""

    def __init__(self) -> None:
        self._undo = contextlib.ExitStack()
        self.replaced: list[tuple[Any, str]] = []
        self.changed_rows: list[tuple[dict[EntryKind, Any], EntryKind]] = []

    def replace(self, owner: Any, new: Callable[..., Any]) -> None:
        """Replace the function of the same name. Raises `LookupError` if there is none."""
        name = new.__name__
        if name not in vars(owner):
            raise LookupError(f"{owner.__name__} has no {name}: the bug must be planted elsewhere")
        old = vars(owner)[name]
        self.replaced.append((owner, name))
        self._set(owner, name, new)
        if isinstance(owner, ModuleType):
            self._replace_imported(old, new)
        self._replace_in_rows(old, new)

    def _replace_imported(self, old: Any, new: Any) -> None:
        modules = [module for name, module in sys.modules.items() if name.startswith(("durable.", "simulation."))]
        for module in modules:
            for name in [name for name, value in vars(module).items() if value is old]:
                self._set(module, name, new)
        tables: list[dict[Any, Any]] = [decisions._DECISIONS, decisions._HANDLERS, queries._LISTS]
        for table in tables:
            for name in [name for name, value in table.items() if value is old]:
                self._undo.callback(table.__setitem__, name, old)
                table[name] = new

    def _replace_in_rows(self, old: Any, new: Any) -> None:
        """The rows of wait kinds hold functions too."""
        tables: tuple[dict[EntryKind, Any], ...] = (KINDS, decisions.WAIT_KINDS)
        for table in tables:
            for kind, row in table.items():
                columns = {column: new for column in attrs.asdict(row, recurse=False) if getattr(row, column) is old}
                if columns:
                    self.change_row(table, kind, **columns)

    def change_row(self, table: dict[EntryKind, Any], kind: EntryKind, **columns: Any) -> None:
        """Change columns in the row of one kind of wait."""
        self._undo.callback(table.__setitem__, kind, table[kind])
        self.changed_rows.append((table, kind))
        table[kind] = attrs.evolve(table[kind], **columns)

    def _set(self, owner: Any, name: str, new: Any) -> None:
        self._undo.callback(setattr, owner, name, vars(owner)[name])
        setattr(owner, name, new)

    def undo(self) -> None:
        """Put everything back."""
        self._undo.close()


@attrs.frozen
class Bug:
    """A broken promise: the invariants that should notice it, and the first seed to try."""

    name: str
    promise: str
    # The invariants that may be the first to notice. Empty if the damage is such that any of them may be.
    noticed_by: tuple[str, ...]
    seed: int
    plant: Callable[[Planter], None]

    @contextlib.contextmanager
    def planted(self) -> Iterator[Planter]:
        """The engine has the bug inside this block."""
        planter = Planter()
        try:
            self.plant(planter)
            yield planter
        finally:
            planter.undo()


BUGS: dict[str, Bug] = {}


def bug(*noticed_by: str, seed: int = 0) -> Callable[[Callable[[Planter], None]], Callable[[Planter], None]]:
    """Add a bug to the table. Its docstring is the promise that it breaks."""

    def add(plant: Callable[[Planter], None]) -> Callable[[Planter], None]:
        BUGS[plant.__name__] = Bug(plant.__name__, plant.__doc__ or "", noticed_by, seed, plant)
        return plant

    return add
