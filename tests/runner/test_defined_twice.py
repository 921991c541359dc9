"""Two functions of one module with the same name are refused; running a module again is fine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable.errors import DuplicateActivity, DuplicateWorkflow

HEADER = "from durable import activity, sleep, workflow\n"
ACTIVITY = "@activity{options}\ndef {name}(order: str) -> int:\n    return 1\n\n"
WORKFLOW = "@workflow{options}\ndef {name}(order: str):\n    yield from sleep(1)\n\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules, removed from `sys.path` and `sys.modules` afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("defined_twice", None)


def write(folder: Path, *parts: str) -> None:
    """Write a module of these parts."""
    (folder / "defined_twice.py").write_text(HEADER + "".join(parts))
    importlib.invalidate_caches()


def defined(template: str, name: str, options: str = "") -> str:
    """The source of a definition."""
    return template.format(name=name, options=options)


def test_second_workflow_of_a_module_is_refused_with_both_lines(folder: Path) -> None:
    """A second workflow with the same name and version in one module would hide the first."""
    write(folder, defined(WORKFLOW, "twice_wf"), defined(WORKFLOW, "twice_wf"))
    with pytest.raises(DuplicateWorkflow, match=r"defined_twice\.py:2 and .*defined_twice\.py:6"):
        importlib.import_module("defined_twice")


@pytest.mark.parametrize("options", ["", "(name='charge')"])
def test_second_activity_of_a_module_is_refused_with_both_lines(folder: Path, options: str) -> None:
    """The same holds for an activity, with a name from the function or from `name=`."""
    write(folder, defined(ACTIVITY, "charge"), defined(ACTIVITY, "other" if options else "charge", options))
    with pytest.raises(DuplicateActivity, match=r"'charge' is .*defined_twice\.py:2 and .*defined_twice\.py:6"):
        importlib.import_module("defined_twice")


def test_reloaded_module_may_define_everything_again(folder: Path) -> None:
    """`importlib.reload` runs the definitions again, even on other lines."""
    parts = defined(WORKFLOW, "reloaded_wf"), defined(ACTIVITY, "charge")
    write(folder, *parts)
    module = importlib.import_module("defined_twice")
    for header in ("", "# another line\n"):
        write(folder, header, *parts)
        module = importlib.reload(module)
    assert module.reloaded_wf.name == "reloaded_wf"


def test_other_versions_and_other_modules_are_not_duplicates(folder: Path) -> None:
    """Another version is another workflow, and `.options()` and factories make copies."""
    copies = (
        "again = charge.options(timeout=5)\nfor _ in range(2):\n    charge_loop = activity(name='loop')(charge.fn)\n"
    )
    versions = defined(WORKFLOW, "versions_wf"), defined(WORKFLOW, "versions_wf", "(version=2)")
    write(folder, *versions, defined(ACTIVITY, "charge"), copies)
    assert importlib.import_module("defined_twice").versions_wf.version == 2


def script(folder: Path, *parts: str) -> dict[str, Any]:
    """The globals of a file when it is run as a script."""
    path = folder / "script.py"
    path.write_text(HEADER + "".join(parts))
    return {"__name__": "__main__", "__spec__": None, "__file__": str(path)}


def execute(space: dict[str, Any]) -> None:
    """Run a script in these globals."""
    path = Path(space["__file__"])
    exec(compile(path.read_text(), str(path), "exec"), space)


def test_second_definition_of_a_script_is_refused_with_both_lines(folder: Path) -> None:
    """A script has no module spec, but it runs only once."""
    space = script(folder, defined(ACTIVITY, "one", "(name='pay')"), defined(ACTIVITY, "two", "(name='pay')"))
    with pytest.raises(DuplicateActivity, match=r"'pay' is .*script\.py:2 and .*script\.py:6"):
        execute(space)


def test_script_in_new_globals_is_not_a_duplicate(folder: Path) -> None:
    """A server that runs a script again uses new globals."""
    for header in ("", "# another line\n"):
        execute(script(folder, header, defined(ACTIVITY, "script_pay")))


def test_script_at_a_prompt_may_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a prompt a file may run again in the same globals."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    space = script(folder, defined(ACTIVITY, "prompt_pay"))
    execute(space)
    script(folder, "# another line\n", defined(ACTIVITY, "prompt_pay"))
    execute(space)


def test_cell_of_a_notebook_may_run_again() -> None:
    """Code without a module spec, as in a notebook or at a prompt, may run any number of times."""
    cell = {"__name__": "__main__", "__spec__": None}
    for lines in ("", "\n", "\n\n"):
        exec(lines + HEADER + defined(WORKFLOW, "cell_wf") + defined(ACTIVITY, "charge"), cell)
    assert "cell_wf" in cell
