"""The house rules as tests, over `ast` alone: who may import whom, how big things may be, who may read the clock.

A rule takes files and yields offences, `file:line what`. `RULES` says which files it covers. `BAD` has snippets that it
must refuse, because a check that cannot fail proves nothing.
"""

from __future__ import annotations

import ast
import copy
import functools
import graphlib
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

import attrs
import pytest

from durable import errors
from tests.public_names import PUBLIC_NAMES
from tests.sources import FunctionNode, Source, files, functions, imports, inside_functions, uses

FILE_LINES, FUNCTION_LINES, CLASS_LINES, TEST_LINES = 400, 60, 250, 40
# Who may touch the open batch.
BATCH_HOLDERS = ("durable/engine/state/", "durable/engine/coordinator/coordinator.py")
PUBLIC_METHODS, POSITIONAL_PARAMETERS, NESTING = 15, 5, 4

# The rooms of the engine, from the inside out: each may import those before it. `config` is a single file.
ENGINE_ROOMS = ("config", "operations", "state", "decide", "repair", "coordinator", "host", "remote", "api")
# The stores: each may import the rooms in its row, besides itself and the model.
STORE_ROOMS = {"base": (), "sql": ("base",), "memory": ("base",), "sqlite": ("base", "sql")}
_MODEL = ("durable.errors", "durable.model")
_BASE = "durable.backends.base"
_ENGINE = (*_MODEL, "durable.runner", "durable.engine", _BASE)
_EDGES = ("testing", "cli", "contrib", "telemetry", "web")
# What each room may import of durable. Only the edges may import the edges.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": ("durable.errors", "durable.model.statuses"),
    "model": _MODEL,
    "runner": (*_MODEL, "durable.runner"),
    "front": (*_MODEL, "durable.runner", "durable.engine", "durable.public"),
    # The door to the stores: it imports a backend when a URL asks for it, and reads histories from files.
    "backends": (*_MODEL, "durable.backends"),
}
for _at, _room in enumerate(ENGINE_ROOMS):
    _inner = tuple(f"durable.engine.{inner}" for inner in ENGINE_ROOMS[: _at + 1])
    MAY_IMPORT[f"engine.{_room}"] = (*_MODEL, "durable.runner", _BASE, *_inner)
for _room, _others in STORE_ROOMS.items():
    MAY_IMPORT[f"backends.{_room}"] = (*_MODEL, *(f"durable.backends.{other}" for other in (_room, *_others)))
MAY_IMPORT |= {edge: (*_ENGINE, "durable.backends", f"durable.{edge}") for edge in _EDGES}
# The door from the engine and the client to the stores; the command's own version.
MAY_IMPORT_TOO = {
    "durable/engine/api/client.py": ("durable.backends.url",),
    "durable/engine/api/engine.py": ("durable.backends.url",),
}
MUST_NOT_IMPORT = {
    "errors": ("anyio", "asyncio", "sqlite3", "threading", "trio"),
    "model": ("anyio", "asyncio", "sqlite3", "threading", "trio"),
    "runner": ("anyio", "asyncio", "concurrent", "random", "socket", "sqlite3", "threading", "time", "trio"),
    "engine": ("sqlite3", "sqlite_utils"),
    "backends": ("anyio", "asyncio", "trio"),
}
# Imports inside functions: dependencies that are optional or that only some users load.
LAZY = {
    "durable/backends/sqlite/schema.py": ("sqlite_utils",),  # slow to import, and needed only when a schema changes
    "durable/backends/url.py": ("durable.backends",),
    "durable/model/shapes/converter.py": ("pydantic",),
    "durable/telemetry/__init__.py": ("durable.telemetry.otel", "durable.telemetry.prometheus"),  # need an extra
}
_TODAY = tuple(f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today"))
# What only one module may touch, and who may touch a part of it: random() in a workflow, seeded from its identity.
ONLY_HERE = {
    "durable/model/clock.py": ("time", *_TODAY),
    "durable/model/ids.py": ("os.getrandom", "os.urandom", "random", "secrets", "uuid.uuid1", "uuid.uuid4"),
}
SEEDED = {"durable/runner/determinism.py": "random.Random"}
CONFIG, POSITIONS = "durable/engine/config.py", "durable/model/position.py"
# The file with the public names, and the only star import: `durable` shows them to type checkers.
PUBLIC = "durable/public.py"
HANDS_OUT = ("durable/__init__.py", "durable.public.*")

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


Offences = Iterator[tuple[ast.AST | int, str]]
Rule = Callable[[Sequence[Source]], Iterator[str]]


def each(rule: Callable[[Source], Offences]) -> Rule:
    """Turn a rule for one file into a rule for many, with offences that an editor can jump to."""

    @functools.wraps(rule)
    def over(sources: Sequence[Source]) -> Iterator[str]:
        for source in sources:
            for place, what in rule(source):
                yield f"{source.path}:{place if isinstance(place, int) else getattr(place, 'lineno', 1)} {what}"

    return over


def room_of(path: str) -> str:
    """The row of the tables to which a file of the package belongs."""
    parts = path.removesuffix(".py").split("/")[1:]
    if len(parts) == 1:
        return {"__init__": "front", "__main__": "cli", "public": "front"}.get(parts[0], "no room")
    is_divided = parts[0] in ("engine", "backends") and f"{parts[0]}.{parts[1]}" in MAY_IMPORT
    return f"{parts[0]}.{parts[1]}" if is_divided else parts[0]


def within(target: str, prefixes: Iterable[str]) -> bool:
    """Whether a dotted name is one of these or lies below one."""
    return any(target == prefix or target.startswith(prefix + ".") for prefix in prefixes)


@each
def one_way(source: Source) -> Offences:
    """Model, runner, engine from the inside out, edges: a room imports those before it, and nothing impure."""
    room = room_of(source.path)
    may = (*MAY_IMPORT.get(room, ()), *MAY_IMPORT_TOO.get(source.path, ()))
    # A folder that only holds rooms has nothing but its essay.
    is_essay = source.path == "durable/engine/__init__.py"
    if room not in MAY_IMPORT and not is_essay:
        yield source.tree, f"{room}: enter it in the tables"
    for node, target in imports(source.tree):
        is_outside = within(target, ["durable"]) and not within(target, may)
        is_impure = within(target, MUST_NOT_IMPORT.get(room.split(".")[0], ())) and target != SEEDED.get(source.path)
        if is_outside or is_impure:
            yield node, f"{room} must not import {target}"


@each
def import_form(source: Source) -> Offences:
    """Imports are absolute, by name and at the top of the file."""
    lazy = inside_functions(source.tree)
    for node, target in imports(source.tree):
        if target.startswith("."):
            yield node, f"relative import of {target}"
        if target.endswith(".*") and (source.path, target) != HANDS_OUT:
            yield node, f"star import of {target}"
        if node in lazy and not within(target, LAZY.get(source.path, ())):
            yield node, f"{target} is imported inside a function"


def no_cycles(sources: Sequence[Source]) -> Iterator[str]:
    """No two modules import each other, directly or not."""
    modules = {
        source.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): source for source in sources
    }
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for module, source in modules.items():
        lazy = inside_functions(source.tree)
        for target in (target for node, target in imports(source.tree) if node not in lazy):
            graph[module].add(max((name for name in modules if within(target, [name])), key=len, default=module))
    try:
        graphlib.TopologicalSorter({name: imported - {name} for name, imported in graph.items()}).prepare()
    except graphlib.CycleError as error:
        yield f"{modules[error.args[1][0]].path}:1 imports in a circle: {' <- '.join(error.args[1])}"


def nesting(nodes: Iterable[ast.AST], parent: ast.AST | None = None) -> int:
    """How deep blocks nest. An `elif` is no deeper than its `if`."""
    deepest = 0
    for node in nodes:
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            is_elif = isinstance(node, ast.If) and isinstance(parent, ast.If) and node.col_offset == parent.col_offset
            own = isinstance(node, BLOCKS) and not is_elif
            deepest = max(deepest, own + nesting(ast.iter_child_nodes(node), node))
    return deepest


def length(node: FunctionNode | ast.ClassDef) -> int:
    """The lines of a definition, without its decorators."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_overload(node: ast.AST) -> bool:
    """Whether this is one signature of an overloaded function."""
    return isinstance(node, FunctionNode) and any(
        "overload" in ast.unparse(decorator) for decorator in node.decorator_list
    )


@each
def size_of_files(source: Source) -> Offences:
    """A file has a limited number of lines."""
    if (count := len(source.text.splitlines())) > FILE_LINES:
        yield source.tree, f"has {count} lines, {FILE_LINES} are allowed"


@each
def sizes(source: Source) -> Offences:
    """A function is short, flat and takes few positional parameters, and a class does one thing."""
    for node in functions(source.tree):
        positional = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args) if arg.arg not in ("self", "cls")]
        if length(node) > FUNCTION_LINES:
            yield node, f"{node.name} has {length(node)} lines, {FUNCTION_LINES} are allowed"
        if len(positional) > POSITIONAL_PARAMETERS and not is_overload(node):
            yield node, f"{node.name} has {len(positional)} positional parameters"
        if (depth := nesting(node.body)) > NESTING:
            yield node, f"{node.name} nests {depth} blocks, {NESTING} are allowed"
    for cls in (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)):
        public = {
            member.name for member in cls.body if isinstance(member, FunctionNode) and not member.name.startswith("_")
        }
        if length(cls) > CLASS_LINES:
            yield cls, f"{cls.name} has {length(cls)} lines, {CLASS_LINES} are allowed"
        if len(public) > PUBLIC_METHODS:
            yield cls, f"{cls.name} has {len(public)} public methods, {PUBLIC_METHODS} are allowed"


@each
def purity(source: Source) -> Offences:
    """Only clock.py reads time, and only ids.py draws randomness."""
    for node, name in uses(source.tree):
        for home, forbidden in ONLY_HERE.items():
            if within(name, forbidden) and source.path != home and name != SEEDED.get(source.path):
                yield node, f"{name} belongs to {home}"
    for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        if ast.unparse(call).endswith("Random()"):
            yield call, "a generator of random numbers without a seed"


@each
def positions_are_parsed_in_one_place(source: Source) -> Offences:
    """Only `position` takes a position apart, because its form is a stored format."""
    if not source.path.startswith(("durable/runner/", "durable/engine/")):
        return
    for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        is_cut = isinstance(call.func, ast.Attribute) and call.func.attr in ("split", "rsplit", "rpartition")
        if is_cut and any(isinstance(arg, ast.Constant) and arg.value in (".", ":") for arg in call.args):
            yield call, f"{ast.unparse(call)} belongs to {POSITIONS}"


@each
def state_alone_writes(source: Source) -> Offences:
    """Only `state`, and the coordinator that commits it, touch the open batch."""
    if not source.path.startswith("durable/engine/") or source.path.startswith(BATCH_HOLDERS):
        return
    for node in (node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)):
        if node.attr == "batch":
            yield node, f"{ast.unparse(node)} belongs to durable/engine/state"


def options_are_read(sources: Sequence[Source]) -> Iterator[str]:
    """An option of EngineConfig that no code reads does not exist."""
    top = [node for source in sources if source.path == CONFIG for node in source.tree.body]
    config = next((node for node in top if isinstance(node, ast.ClassDef) and node.name == "EngineConfig"), None)
    if config is None:
        yield f"{CONFIG}:1 EngineConfig is not defined"
        return
    nodes = {node for source in sources for node in ast.walk(source.tree)} - set(ast.walk(config))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    for field in config.body:
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) not in read:
            yield f"{CONFIG}:{field.lineno} nothing reads {ast.unparse(field.target)}"


def public_names(sources: Sequence[Source]) -> Iterator[str]:
    """`durable` exports exactly the decided names."""
    front = [node for source in sources if source.path == PUBLIC for node in source.tree.body]
    lists = [node.value for node in front if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    shown = ast.literal_eval(lists[0]) if lists else ()
    names = [name for name in PUBLIC_NAMES if name != "__version__"]
    yield from (f"{PUBLIC}:1 {name} is missing in __all__" for name in names if name not in shown)
    yield from (f"{PUBLIC}:1 {name} is unexpected in __all__" for name in shown if name not in names)


@each
def docstrings(source: Source) -> Offences:
    """Modules and their public functions and classes have docstrings."""
    if not ast.get_docstring(source.tree):
        yield source.tree, "the module has no docstring"
    for node in (node for node in source.tree.body if isinstance(node, FunctionNode | ast.ClassDef)):
        if not (node.name.startswith("_") or is_overload(node) or ast.get_docstring(node)):
            yield node, f"{node.name} has no docstring"


def promises(text: str) -> bool:
    """Whether a text leaves something for later."""
    return "TODO" in text or "FIXME" in text


@each
def leftovers(source: Source) -> Offences:
    """No promises in comments, and nothing that would run code from stored data."""
    # Few files contain such a word, and tokenising is slow.
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline) if promises(source.text) else ():
        if token.type == tokenize.COMMENT and promises(token.string):
            yield token.start[0], token.string
    for node, target in imports(source.tree):
        if within(target, ("marshal", "pickle", "shelve")):
            yield node, f"{target} is never used here"


@each
def shape_of_tests(source: Source) -> Offences:
    """A test makes a claim, is short, and does not wait for real time."""
    for node in functions(source.tree):
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield node, f"{node.name} makes no claim: it has no docstring"
        if node.name.startswith("test_") and length(node) > TEST_LINES:
            yield node, f"{node.name} has {length(node)} lines, {TEST_LINES} are allowed"
    if "sleep" in source.text:
        yield from ((node, f"{name} waits for real time") for node, name in uses(source.tree) if name == "time.sleep")


def mute_errors(classes: Iterable[type[BaseException]]) -> Iterator[str]:
    """An error says what it is and what happened, and still does after it was copied."""
    for cls in classes:
        fields = attrs.fields(cls) if attrs.has(cls) else ()
        values = [next(value for kind, value in SAMPLES if kind in str(field.type)) for field in fields] or ["why"]
        error = cls("sample", "failed") if cls is errors.WorkflowTerminated else cls(*values)
        if not vars(cls).get("__doc__"):
            yield f"durable/errors:1 {cls.__name__} has no docstring"
        if not str(error) or str(copy.copy(error)) != str(error):
            yield f"durable/errors:1 {cls.__name__} has no message, or loses it when copied"


SAMPLES = (("str", "sample"), ("timedelta", timedelta(seconds=3)), ("int", 3), ("float", 3.5))
ERRORS = [error for error in vars(errors).values() if BaseException in getattr(error, "__mro__", ())]
_PACKAGE = (
    one_way, import_form, no_cycles, purity, positions_are_parsed_in_one_place, state_alone_writes, options_are_read,
)  # fmt: skip
RULES: dict[Rule, tuple[str, ...]] = dict.fromkeys((*_PACKAGE, public_names), ("durable",))
RULES |= dict.fromkeys((sizes, docstrings), ("durable", "simulation"))
RULES |= dict.fromkeys((size_of_files, leftovers), ("durable", "simulation", "tests"))
RULES[shape_of_tests] = ("tests",)
_A, _DEEP = (
    "durable/engine/decide/a.py",
    "def f():" + "".join(f"\n{' ' * depth}if {depth}:" for depth in range(1, 6)) + " pass",
)
# A rule, a file, its contents, and a part of what the rule must say.
BAD: tuple[tuple[Rule, str, str, str], ...] = (
    (one_way, "durable/model/records.py", "from durable import engine", "model must not import durable.engine"),
    (one_way, "durable/errors/a.py", "import durable.model.records", "errors must not import"),
    (one_way, "durable/runner/a.py", "from durable.engine.state import State", "runner must not"),
    (one_way, _A, "import durable.backends.url", "engine.decide must not"),
    (one_way, _A, "import durable.engine.coordinator.inbox", "engine.decide must not"),
    (one_way, "durable/engine/state/a.py", "from durable.engine import decide", "engine.state must not"),
    (one_way, "durable/engine/api/engine.py", "from durable.backends import sqlite", "engine.api must not"),
    (one_way, "durable/backends/a.py", "import durable.runner", "backends must not"),
    (one_way, "durable/backends/sql/a.py", "import durable.backends.sqlite.wal", "backends.sql must not"),
    (one_way, "durable/cli/a.py", "import durable.testing", "cli must not"),
    (one_way, "durable/helpers.py", "", "enter it"),
    (one_way, "durable/engine/helpers.py", "", "enter it"),
    (one_way, "durable/runner/a.py", "from random import Random", "random.Random"),
    (one_way, "durable/runner/determinism.py", "import time", "time"),
    (one_way, _A, "import sqlite3", "must not import sqlite3"),
    (import_form, _A, "from . import state", "relative"),
    (import_form, _A, "from os import *", "star"),
    (import_form, "durable/model/codec.py", "async def f():\n import trio", "inside"),
    (no_cycles, f"{_A} durable/b.py", "import durable.b\nfrom durable.engine.decide import a", "circle"),
    (size_of_files, _A, "\n" * (FILE_LINES + 1), "401 lines"),
    (sizes, _A, "def f():" + "\n 1" * FUNCTION_LINES, "61 lines"),
    (sizes, _A, "def f(self, a, b, c, d, /, e, g): 1", "6 positional"),
    (sizes, _A, _DEEP, "nests 5"),
    (sizes, _A, "class C:" + "\n 1" * CLASS_LINES, "251 lines"),
    (sizes, _A, "class C:" + "".join(f"\n def m{n}(self): 1" for n in range(16)), "16 public"),
    (purity, _A, "import time as t\nt.monotonic()", "time.monotonic belongs"),
    (purity, _A, "import datetime\ndatetime.datetime.now()", "datetime.now belongs"),
    (purity, _A, "from uuid import uuid4\nuuid4()", "uuid4 belongs"),
    (purity, "durable/runner/determinism.py", "import random\nrandom.random()", "random.random belongs"),
    (purity, "durable/runner/determinism.py", "import random\nrandom.Random()", "without a seed"),
    (positions_are_parsed_in_one_place, _A, "wait.position.rpartition('.')", "belongs to durable/model/position.py"),
    (state_alone_writes, _A, "turn.state.batch.events_put[1] = event", "belongs to durable/engine/state"),
    (options_are_read, CONFIG, "class EngineConfig:\n batch: int\n def f(self): self.batch", "reads batch"),
    (options_are_read, "durable/config.py", "class EngineConfig: 1", "not defined"),
    (public_names, "durable/public.py", "__all__ = ['helper']", "helper is unexpected"),
    (docstrings, _A, "def f(): 1", "module has no"),
    (docstrings, _A, "'Doc.'\nclass C: 1", "C has no"),
    (leftovers, _A, "1  # TODO later", "TODO later"),
    (leftovers, _A, "import pickle", "pickle"),
    (shape_of_tests, "tests/a.py", "async def test_a(): 1", "no docstring"),
    (shape_of_tests, "tests/a.py", "def test_a():\n 'Doc.'" + "\n 1" * TEST_LINES, "42 lines"),
    (shape_of_tests, "tests/a.py", "import time\ntime.sleep(1)", "time.sleep"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_house_keeps_the_rule(rule: Rule) -> None:
    """No file breaks the rule, and the rule can be broken."""
    assert any(rule is bad_rule for bad_rule, *_ in BAD)
    assert not (offences := list(rule(files(*RULES[rule])))), "\n".join([rule.__doc__ or "", *offences])


@pytest.mark.parametrize(("rule", "path", "text", "said"), BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_rule_refuses_what_breaks_it(rule: Rule, path: str, text: str, said: str) -> None:
    """A snippet that breaks the rule is reported with its place."""
    assert any(
        offence.split(":")[0] in (*path.split(), CONFIG) and said in offence
        for offence in rule([Source(name, text) for name in path.split()])
    )


def test_errors_have_something_to_say() -> None:
    """Every error has a docstring and a message, and a class without them is reported."""
    assert not (mute := list(mute_errors(ERRORS))), "\n".join(mute)
    assert len(list(mute_errors([type("Mute", (Exception,), {"__str__": lambda _: ""})]))) == 2
