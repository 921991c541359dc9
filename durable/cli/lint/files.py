"""Which files a word on the command line means: a file, a folder, or a package that could be imported.

Finds packages without importing anything, parents included. Must not know what is looked for in the files.
"""

from __future__ import annotations

import os
import tokenize
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

_SKIPPED = ("__pycache__", "node_modules")


def find_files(words: Iterable[str]) -> Iterator[Path]:
    """Every Python file, each once. Raises `FileNotFoundError` with a word that means nothing."""
    seen: set[str] = set()
    for word in words:
        for path in _of_word(word):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def read_text(path: Path) -> str | None:
    """The text of a file in the encoding that it declares; None if it is not text."""
    try:
        with tokenize.open(path) as opened:
            return opened.read()
    except (SyntaxError, UnicodeDecodeError):
        return None


def _of_word(word: str) -> Iterator[Path]:
    path = Path(word)
    if path.is_dir():
        yield from _below(path)
    elif path.is_file():
        yield path
    else:
        yield from _of_package(word)


def _of_package(name: str) -> Iterator[Path]:
    """A module or package by its dotted name. `find_spec` would import the parents, so only the first part is asked."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top) if all(part.isidentifier() for part in (top, *rest)) else None
    found: list[Path] = []
    if spec is not None:
        found = [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
    for part in rest:
        below = [folder / end for folder in found for end in (part, f"{part}.py")]
        found = [path for path in below if path.exists()]
    found = [path for path in found if path.is_dir() or path.suffix == ".py"]
    if not found:
        raise FileNotFoundError(name)
    for path in found:
        here = Path(os.path.relpath(path))
        yield from _below(here) if here.is_dir() else [here]


def _below(folder: Path) -> Iterator[Path]:
    """The Python files of a folder, without caches, hidden folders and virtual environments."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            one
            for one in folders
            if not one.startswith(".") and one not in _SKIPPED and not (here / one / "pyvenv.cfg").exists()
        )
        yield from (here / one for one in sorted(files) if one.endswith(".py") and not one.startswith("."))
