"""A workload as a value: its cases, who takes part in each, and which figures are shown. Only the standard library."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

Sizes = Mapping[str, float]
NONE: Sizes = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Store:
    """A store that is made once, by "module:function" in a process of its own; every run gets a copy of it."""

    entry: str
    # Which sizes of the case it depends on.
    sizes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One variant of a workload."""

    name: str
    sizes: Sizes
    # What `--quick` changes about the sizes.
    quick: Sizes = dataclasses.field(default_factory=dict)
    # Contenders and what they change about the sizes; slower ones get smaller counts.
    contenders: Mapping[str, Sizes] = dataclasses.field(default_factory=lambda: {"durable": NONE})
    store: Store | None = None
    # Instead of the workload's.
    entry: str = ""
    # Most repeats that it is worth: a case that takes half a minute is not repeated five times.
    repeats_max: int = 99


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A figure in a table: its name in the results, its heading, and the format of its value."""

    figure: str
    heading: str
    format: str = ",.0f"
    # A share of one that is shown in per cent, say.
    factor: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """What is measured, and how it is shown."""

    name: str
    title: str
    about: str
    # "module:function" that measures a driver.
    entry: str
    cases: Sequence[Case]
    columns: Sequence[Column]
