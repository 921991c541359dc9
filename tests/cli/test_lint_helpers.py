"""Which functions belong to a workflow: helpers, branches and plain functions, in this file and in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.cli.lint.findings import lint
from tests.cli.kit import HEADER, codes, findings, module

HELPER = """
def helper(order):
    time.time()
    yield from charge(order)

async def async_helper(order):
    time.time()
    await charge(order)

def plain(order):
    time.time()

def numbers(order):
    yield 1
"""


@pytest.mark.parametrize(
    "use",
    [
        "yield from helper(order)",
        "yield from gather(helper(order), sleep(1))",
        "yield from gather(*[helper(one) for one in order])",
        "yield from race(a=helper(order), b=sleep(1))",
        "x = plain(order); yield from sleep(1)",
        "sorted([], key=plain); yield from sleep(1)",
        "yield from gather(async_helper(order))",
    ],
)
def test_helper_is_checked_with_its_workflow(use: str) -> None:
    """A helper is part of the body that runs it, and the finding names that workflow."""
    (finding,) = findings(module(use, more=HELPER))
    assert (finding.code, finding.workflow) == ("DUR001", "body")
    assert "which runs in workflow body" in finding.message


@pytest.mark.parametrize("use", ["yield from call(plain, order)", "yield from activity(plain)(order)", "plain"])
def test_function_that_runs_as_an_activity_is_not(use: str) -> None:
    """A function that is passed to durable as an activity, or only named, does not run in the body."""
    assert codes(module(f"{use}\nyield from sleep(1)", more=HELPER)) == []


DECORATED = {
    "@lru_cache": ["DUR003"],
    "@functools.wraps(open)": ["DUR003"],
    "@own_activity": [],
    "@other.task(retries=3)": [],
    "@charging": [],
}


@pytest.mark.parametrize("decorator", DECORATED)
def test_function_with_a_foreign_decorator_is_not_entered(decorator: str) -> None:
    """A foreign decorator may make anything of a function, perhaps an activity, so nothing is reported."""
    more = f"""
import functools
from functools import lru_cache
import other
charging = activity(name="charging")
def own_activity(fn):
    return activity(retry=None)(fn)

{decorator}
def save(order):
    open(order)
"""
    assert codes(module("x = save(order)\nyield from sleep(x)", more=more)) == DECORATED[decorator]


def test_helper_of_a_helper_is_checked() -> None:
    """Helpers of helpers are checked at any depth, even if they call each other in a circle."""
    more = """
    def first(order):
        yield from second(order)

    def second(order):
        yield from third(order)
        yield from first(order)

    def third(order):
        open(order)
        yield from sleep(1)
    """
    assert codes(module("yield from first(order)", more=more)) == ["DUR003"]


def test_nested_function_is_checked_where_it_is_used() -> None:
    """A function inside the body is checked if it is called there, but not if it is an activity."""
    used = "def branch():\n    time.time()\n    yield from sleep(1)\nyield from gather(branch())"
    unused = "@activity\ndef branch():\n    return time.time()\nyield from branch()"
    assert codes(module(used)) == ["DUR001"]
    assert codes(module(unused)) == []


def test_plain_generator_may_yield() -> None:
    """A generator that a body iterates is not a helper: it may yield anything, but not read the clock."""
    more = HELPER + "\ndef ticks():\n    yield time.time()\n"
    assert codes(module("for one in numbers(order):\n    yield from charge(one)", more=more)) == []
    assert codes(module("for one in ticks():\n    yield from charge(one)", more=more)) == ["DUR001"]
    assert codes(module("yield from numbers(order)", more=more)) == ["DUR102"]


def write(folder: Path, files: dict[str, str]) -> list[tuple[Path, str]]:
    """Write some files."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [(path, path.read_text()) for path in sorted(folder.rglob("*.py"))]


ACTIVITIES = f"{HEADER}\ndef helper(order):\n    time.time()\n    yield from charge(order)\n"
IMPORTS = (
    "from shop.activities import charge, helper",
    "from .activities import charge, helper",
    "from . import activities\ncharge = activities.charge\nhelper = activities.helper",
    "import shop.activities\ncharge = shop.activities.charge\nhelper = shop.activities.helper",
    "from shop import charge, helper",
    "import shop.activities as acts\nfrom shop.activities import helper\ncharge = acts.charge",
)


@pytest.mark.parametrize("imported", IMPORTS)
def test_names_are_followed_from_file_to_file(tmp_path: Path, imported: str) -> None:
    """Activities and helpers of other checked files are known, even through a package's `__init__`."""
    flows = (
        f"from durable import workflow\n{imported}\n@workflow\ndef body(order):\n"
        "    charge(order)\n    yield from helper(order)\n"
    )
    front = "from shop.activities import charge, helper\n"
    sources = write(tmp_path, {"shop/__init__": front, "shop/activities": ACTIVITIES, "shop/flows": flows})
    reported = [(finding.code, Path(finding.path).name) for finding in lint(sources).findings]
    assert reported == [("DUR001", "activities.py"), ("DUR101", "flows.py")]


def test_file_with_the_name_of_a_module_is_not_mistaken_for_it(tmp_path: Path) -> None:
    """A file `time.py` in a package does not hide the clock, and a file `requests.py` does not hide the library."""
    flows = (
        "import time, requests\nfrom durable import workflow\n@workflow\ndef body(order):\n"
        "    time.time()\n    requests.get('x')\n    yield from ()\n"
    )
    empty = "def time(): ...\n"
    sources = write(tmp_path, {"shop/__init__": "", "shop/time": empty, "shop/requests": empty, "shop/flows": flows})
    assert [finding.code for finding in lint(sources).findings] == ["DUR001", "DUR003"]


def test_files_that_share_a_name_are_not_guessed_at(tmp_path: Path) -> None:
    """If two files could be meant, nothing is reported."""
    flows = (
        "from durable import workflow\nfrom tools import helper\n@workflow\ndef body(o):\n    yield from helper(o)\n"
    )
    sources = write(tmp_path, {"a/tools": ACTIVITIES, "b/tools": ACTIVITIES, "c/flows": flows})
    assert lint(sources).findings == ()
    assert [
        finding.code for finding in lint([source for source in sources if "b/" not in str(source[0])]).findings
    ] == ["DUR001"]
