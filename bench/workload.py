"""A workload as a value: its cases, their contenders, and the figures to show. Only the standard library."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

Sizes = Mapping[str, float]
NONE: Sizes = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Store:
    """A store that is made once, by "module:function" in a separate process; every run gets a copy of it."""

    entry: str
    # The sizes of the case that it depends on.
    sizes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One variant of a workload."""

    name: str
    sizes: Sizes
    # The sizes that `--quick` replaces.
    quick: Sizes = dataclasses.field(default_factory=dict)
    # Contenders, each with the sizes it replaces: slow ones get smaller counts.
    contenders: Mapping[str, Sizes] = dataclasses.field(default_factory=lambda: {"durable": NONE})
    store: Store | None = None
    # The function that measures this case, if not the workload's.
    entry: str = ""
    # At most this many repeats: a case that takes half a minute is not repeated five times.
    repeats_max: int = 99


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A figure in a table: its name in the results, its heading, and the format of its value."""

    figure: str
    heading: str
    format: str = ",.0f"
    # Multiplies the value before it is shown: 100 for percentages.
    factor: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """What is measured, by which function, and how it is shown."""

    name: str
    title: str
    about: str
    # "module:function", which measures one contender.
    entry: str
    cases: Sequence[Case]
    columns: Sequence[Column]
