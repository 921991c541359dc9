"""The files beside those that are checked: their definitions are used, but their code is not checked.

A module is found by its name in the folders around the checked files, then in `sys.path` without installed packages. It
is read and parsed, and never imported.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from durable.cli.lint.files import read_text

_INSTALLED = ("site-packages", "dist-packages")


class Neighbours:
    """Finds and parses modules by name."""

    def __init__(self) -> None:
        self._roots: dict[Path, None] = {}
        self._outer = tuple(_own_folders())

    def add_roots(self, roots: Iterable[Path]) -> None:
        """Add folders in which modules may be found."""
        self._roots.update(dict.fromkeys(roots))

    def find(self, parts: Sequence[str]) -> tuple[Path, ast.Module] | None:
        """The file of a module and its tree; None if there is no such file, or it cannot be read."""
        for root in (*self._roots, *self._outer):
            folder = root.joinpath(*parts)
            for path in (folder / "__init__.py", folder.with_name(f"{folder.name}.py")):
                if path.is_file() and (tree := _parsed(path)) is not None:
                    return path, tree
        return None


def _own_folders() -> Iterable[Path]:
    """The entries of `sys.path` without the standard library and installed packages."""
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    for entry in sys.path:
        real = os.path.realpath(entry or ".")
        if not real.startswith(library) and not any(part in _INSTALLED for part in Path(real).parts):
            yield Path(real)


def _parsed(path: Path) -> ast.Module | None:
    """The tree of a file; None if it cannot be read or parsed."""
    try:
        text = read_text(path)
        return None if text is None else ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
