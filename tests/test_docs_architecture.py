"""docs/architecture.md names files, classes and functions that exist, and its picture shows every room."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import FunctionNode, files, read

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
# Rooms whose own folders are in the picture too.
DIVIDED = ("engine", "backends")
# Names of Python itself, and of the example.
WORDS = {"approval", "ship", "None"}


def targets(node: ast.stmt) -> list[str]:
    """The names that an assignment defines; `x` for `self.x = ...`."""
    match node:
        case ast.Assign(targets=assigned):
            places = assigned
        case ast.AnnAssign(target=target):
            places = [target]
        case _:
            places = []
    flat = [part for place in places for part in (place.elts if isinstance(place, ast.Tuple) else [place])]
    return [place.attr if isinstance(place, ast.Attribute) else ast.unparse(place) for place in flat]


def defined(tree: ast.Module) -> set[str]:
    """What a file defines: names at its top level, and `Class.member`."""
    names: set[str] = set()
    for node in tree.body:
        names.update(targets(node))
        if isinstance(node, FunctionNode | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member}" for member in members(node)}
    return names


def members(cls: ast.ClassDef) -> Iterator[str]:
    """Methods, fields, and attributes that `__init__` sets."""
    for node in cls.body:
        yield from targets(node)
        if isinstance(node, FunctionNode):
            yield node.name
            if node.name == "__init__":
                yield from (name for inner in ast.walk(node) if isinstance(inner, ast.stmt) for name in targets(inner))


def broken_links(text: str) -> list[str]:
    """Links to files that do not exist, and links whose label is code that the linked file does not define."""
    broken = []
    for label, target in re.findall(r"\[([^\]]+)\]\((\.\./[^)#]+)\)", text):
        path = (PAGE.parent / target).resolve()
        if not path.is_file():
            broken.append(f"{label}: {target} does not exist")
        elif label.startswith("`") and label.strip("`") not in defined(read(path).tree):
            broken.append(f"{target} does not define {label}")
    return broken


@functools.cache
def identifiers() -> set[str]:
    """Every name in the code of durable and its simulation."""
    names: set[str] = set()
    for node in (node for source in files("durable", "simulation") for node in ast.walk(source.tree)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case _:
                pass
    return names


def unknown_names(text: str) -> list[str]:
    """Code without a link that is neither a path nor made of names from the code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    # The first column of the last table has the names of the blueprint.
    head, _, table = text.partition("| blueprint |")
    text = head + re.sub(r"^\|[^|]*\|", "", table, flags=re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", re.sub(r"\[`[^`]+`\]", "", text))
    existing = identifiers() | {path.name for path in (ROOT / "durable").rglob("*") if path.is_dir()} | WORDS
    paths = [span for span in spans if re.fullmatch(r"[\w./]+", span) and "/" in span]
    broken = [f"{path} does not exist" for path in paths if not (ROOT / path).exists()]
    for span in (span for span in spans if re.fullmatch(r"[A-Za-z_][\w.]*", span) and not (ROOT / span).is_dir()):
        is_prefix = span.endswith("_") and any(name.startswith(span) for name in existing)
        if not is_prefix and not existing.issuperset(span.split(".")):
            broken.append(f"`{span}` occurs nowhere")
    return broken


def rooms_shown(text: str) -> set[str]:
    """The folders in the picture, as paths."""
    picture = re.search(r"^durable/\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert picture is not None
    shown, parent = set(), ""
    for indent, name in re.findall(r"^( +)(\w+)/ ", picture[1], re.MULTILINE):
        if len(indent) == 2:
            parent = name
        shown.add(name if len(indent) == 2 else f"{parent}/{name}")
    return shown


def rooms_built() -> set[str]:
    """The folders of the package: its rooms, and the rooms of divided ones."""
    package = ROOT / "durable"
    folders = [
        *package.glob("*/__init__.py"),
        *(path for room in DIVIDED for path in package.glob(f"{room}/*/__init__.py")),
    ]
    return {path.parent.relative_to(package).as_posix() for path in folders}


def test_links_name_what_the_files_define() -> None:
    """Every linked file exists, and defines the function, class or member in the label of its link."""
    assert broken_links(PAGE.read_text()) == []


def test_names_without_a_link_occur_in_the_code() -> None:
    """Every other name and path in the text exists somewhere in the code."""
    assert unknown_names(PAGE.read_text()) == []


def test_picture_shows_every_room() -> None:
    """The picture of the rooms has each folder of the package, and no other."""
    assert rooms_shown(PAGE.read_text()) == rooms_built()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_front_pages_lead_here(name: str) -> None:
    """README and CONTRIBUTING link to the page, and only to headings that it has."""
    headings = re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    anchors = re.findall(r"\(docs/architecture\.md#?([^)]*)\)", (ROOT / name).read_text())
    assert anchors
    assert slugs.issuperset(filter(None, anchors))


@pytest.mark.parametrize(
    "text",
    [
        "[`Core.ask`](../durable/engine/api/nowhere.py)",
        "[`Core.answer_later`](../durable/engine/api/core.py)",
        "[`decide_dream`](../durable/engine/decide/events.py)",
    ],
)
def test_broken_link_is_reported(text: str) -> None:
    """A missing file, a missing member and a missing function are each reported."""
    assert len(broken_links(text)) == 1


def test_unknown_name_is_reported() -> None:
    """A name that no code has, a path that does not exist, and a wrong part of a dotted name are each reported."""
    words = ("queue" + "_of_dreams", "durable/engine/" + "dreams.py", "EngineConfig." + "dream" + "_every")
    assert len(unknown_names(" ".join(f"`{word}`" for word in words))) == 3
