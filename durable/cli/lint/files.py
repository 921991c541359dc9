"""The files that a word on the command line means: a file, a folder, or a package that could be imported.

Finds packages without importing anything, not even their parents. Knows nothing about what is checked in the files.
"""

from __future__ import annotations

import os
import tokenize
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

_SKIPPED = ("__pycache__", "node_modules")


def find_files(words: Iterable[str]) -> Iterator[Path]:
    """Every Python file that the words mean, each once. Raises `FileNotFoundError` with a word that means none."""
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
    """The Python files that one word means. A path wins over a package with the same name."""
    path = Path(word)
    if path.is_dir():
        yield from _below(path)
    elif path.is_file():
        yield path
    else:
        yield from _of_package(word)


def _of_package(name: str) -> Iterator[Path]:
    """The files of a module or package, by its dotted name.

    `find_spec` would import the parents of a dotted name, so only the first part is looked up with it.
    """
    top, *inner = name.split(".")
    spec = PathFinder.find_spec(top) if all(part.isidentifier() for part in (top, *inner)) else None
    places: list[Path] = []
    if spec is not None:
        places = [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
    for part in inner:
        below = [folder / end for folder in places for end in (part, f"{part}.py")]
        places = [path for path in below if path.exists()]
    places = [path for path in places if path.is_dir() or path.suffix == ".py"]
    if not places:
        raise FileNotFoundError(name)
    for path in places:
        relative = Path(os.path.relpath(path))
        yield from _below(relative) if relative.is_dir() else [relative]


def _below(folder: Path) -> Iterator[Path]:
    """The Python files in a folder, sorted, without those in caches, hidden folders and virtual environments."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _SKIPPED and not (here / name / "pyvenv.cfg").exists()
        )
        yield from (here / name for name in sorted(files) if name.endswith(".py") and not name.startswith("."))
