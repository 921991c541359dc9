"""The docs are true: their code runs, their tables are those of the code, and no public name is missing."""

from __future__ import annotations

import ast
import inspect
import re
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import attrs
import pytest

import durable
from durable import DeadLetterPolicy, EngineConfig, WorkflowStatus
from durable.model.records import TRANSITIONS
from durable.runner.definitions import REGISTRY

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A fragment that cannot run by itself is marked `python notest`. There are few of them.
FRAGMENTS_MAX = 3


@attrs.frozen
class Block:
    """A piece of code in a page."""

    page: str
    line: int
    info: str
    code: str


def blocks() -> Iterator[Block]:
    """Every fenced block of every page."""
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```(\w[^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield Block(page.name, text.count("\n", 0, match.start()) + 2, match[1], match[2])


def page(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / name).read_text()


RUNNABLE = [block for block in blocks() if block.info == "python"]
PROGRAMS = [block for block in blocks() if re.fullmatch(r"python \w+\.py", block.info)]


def run(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a block in the current directory, as its own process would.

    It knows no workflow of another block, and finds errors by their module's name.
    """
    monkeypatch.setattr(REGISTRY, "_known", {})
    module = types.ModuleType("docs_block")
    monkeypatch.setitem(sys.modules, "docs_block", module)
    code = compile("\n" * (block.line - 1) + block.code, block.page, "exec", dont_inherit=True)
    try:
        exec(code, vars(module))
    except BaseException as error:
        error.add_note(f"in the example of {block.page}:{block.line}")
        raise


@pytest.mark.parametrize("order", [RUNNABLE, RUNNABLE[::-1]], ids=["forwards", "backwards"])
def test_examples_run_beside_each_other(order: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No example depends on what another has left behind.

    All examples of all pages run in one directory, and all of them run again in what that leaves behind. So in one of
    the two orders, each example runs before each other one.
    """
    monkeypatch.chdir(tmp_path)
    for block in order * 2:
        run(block, monkeypatch)


def test_stores_of_examples_have_names_of_their_own() -> None:
    """No two examples write to the same database, so no example finds the ids of another."""
    users: dict[str, list[str]] = {}
    for block in [*RUNNABLE, *PROGRAMS]:
        for name in set(re.findall(r"""(?<![\w/-])([\w-]+\.db)["']""", block.code)):
            users.setdefault(name, []).append(f"{block.page}:{block.line}")
    assert users
    assert {name: where for name, where in users.items() if len(where) > 1} == {}


def test_examples_import_public_modules() -> None:
    """An example imports a name from its public module, not from the module that defines it."""
    code = "".join(block.code for block in [*RUNNABLE, *PROGRAMS])
    modules = set(re.findall(r"^(?:from|import) (durable[\w.]*)", code, re.MULTILINE))
    assert modules == {"durable", "durable.backends.sqlite", "durable.telemetry", "durable.testing"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda block: f"{block.page}:{block.line}")
def test_program_prints_what_the_page_shows(program: Block, tmp_path: Path) -> None:
    """A program that is meant to be saved and run, perhaps killed and run again, prints what the page shows."""
    name = program.info.removeprefix("python ")
    (tmp_path / name).write_text(program.code)
    shown = next(block for block in blocks() if (block.page, block.info) == (program.page, "console"))
    printed = ""
    for _ in range(shown.code.count(f"$ python {name}\n")):
        command = [sys.executable, "-u", name]
        ended = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=25, check=False)
        killed = "Killed\n" if ended.returncode == -signal.SIGKILL else ""
        printed += f"$ python {name}\n{ended.stdout}{killed}"
    assert printed == shown.code


def test_fragments_are_rare() -> None:
    """Nearly every piece of Python in the docs is run."""
    others = [
        block for block in blocks() if "python" in block.info and block.info != "python" and block not in PROGRAMS
    ]
    assert all(block.info == "python notest" for block in others)
    assert len(others) <= FRAGMENTS_MAX < len(RUNNABLE)


def test_readme_is_short() -> None:
    """The README can be read in a minute, and names the two commands."""
    text = PAGES[0].read_text()
    assert len(text.splitlines()) < 120
    assert "make demo" in text
    assert "make test" in text


def test_public_names_are_all_mentioned() -> None:
    """Every public name appears somewhere in docs/, as code."""
    text = "".join(path.read_text() for path in PAGES[1:])
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))
    assert not set(durable.__all__) - set(re.findall(r"\w+", code))


def test_errors_are_all_explained() -> None:
    """Each public error has a row in errors.md that says when it comes and what to do, and no other error has one."""
    shown = {name: getattr(durable, name) for name in durable.__all__}
    public = {name for name, value in shown.items() if isinstance(value, type) and issubclass(value, BaseException)}
    rows = re.findall(r"^\| `(\w+)` \|([^|]+)\|([^|]+)\|$", page("errors.md"), re.MULTILINE)
    assert {name for name, *_ in rows} == public
    assert all(when.strip() and do.strip() for _, when, do in rows)


def config_table() -> str:
    """The options of EngineConfig as a table: name, default, and docstring."""
    body = ast.parse(inspect.getsource(EngineConfig)).body[0]
    assert isinstance(body, ast.ClassDef)
    words = {
        ast.unparse(field.target): ast.literal_eval(said.value)
        for field, said in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(said, ast.Expr)
    }
    rows = [
        f"| `{option.name}` | {shown(option.default)} | {words[option.name]} |" for option in attrs.fields(EngineConfig)
    ]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def shown(value: object) -> str:
    """A default in words."""
    match value:
        case timedelta(days=days):
            return f"{days} days"
        case DeadLetterPolicy(name=name):
            return f"`{name}`"
        case float():
            return f"{value:g} s"
        case None | bool():
            return str(value)
        case _:
            return f"{value:,}"


def test_options_are_those_of_the_config() -> None:
    """The table in operations.md has every option of EngineConfig with its default."""
    assert config_table() in page("operations.md"), f"the table should be:\n{config_table()}"


def states_table() -> str:
    """The transition table: a row per status, and a column per status that may follow."""
    marks = {True: "yes", False: ""}
    head = "| from \\ to | " + " | ".join(f"`{status.name}`" for status in WorkflowStatus) + " |"
    rows = [
        f"| `{status.name}` | " + " | ".join(marks[to in TRANSITIONS.get(status, ())] for to in WorkflowStatus) + " |"
        for status in WorkflowStatus
    ]
    return "\n".join([head, "|---" * (len(WorkflowStatus) + 1) + "|", *rows])


def test_statuses_are_those_of_the_transition_table() -> None:
    """The table in states.md matches TRANSITIONS, and each status is explained."""
    text = page("states.md")
    assert states_table() in text, f"the table should be:\n{states_table()}"
    assert all(f"\n| `{status.name}` |" in text for status in WorkflowStatus)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """A relative link names an existing file, and an existing heading in it."""
    text = re.sub(r"```.*?```|`[^`]+`", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        assert linked.exists(), target
        headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE) if anchor else []
        slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in slugs, target
