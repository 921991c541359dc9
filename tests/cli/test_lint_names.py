"""What the lint reports about names from outside: however they were imported, and only in workflows."""

from __future__ import annotations

import pytest

from tests.cli.kit import codes, findings, module

# One statement each, with the imports that it needs in front.
FOUND = {
    "DUR001": (
        "time.time()",
        "time.monotonic_ns()",
        "datetime.now(timezone.utc)",
        "datetime.utcnow()",
        "date.today()",
        "time.localtime()",
        "time.strftime('%H')",
        "import datetime as dt; dt.datetime.now()",
        "from time import perf_counter as tick; tick()",
        "import pendulum; pendulum.now()",
        "from django.utils import timezone as zone; zone.now()",
        "f'{datetime.now()}'",
        "sorted([1], key=lambda _: time.time())",
        "[time.time() for _ in range(3)]",
    ),
    "DUR002": (
        "uuid4()",
        "import random; random.choice([1, 2])",
        "import random as r; r.Random()",
        "import secrets; secrets.token_hex()",
        "os.urandom(4)",
        "from uuid import uuid1; uuid1()",
        "import numpy as np; np.random.rand()",
    ),
    "DUR003": (
        "open('a')",
        "input()",
        "import requests; requests.get('http://x')",
        "import httpx; httpx.Client()",
        "import httpx; httpx.AsyncClient().get('http://x')",
        "from urllib.request import urlopen; urlopen('http://x')",
        "import socket; socket.create_connection(('x', 1))",
        "import subprocess; subprocess.run(['ls'])",
        "os.listdir('.')",
        "os.path.exists('a')",
        "from pathlib import Path; Path('a').write_text('x')",
        "from pathlib import Path; path = Path('a') / 'b'; path.exists()",
        "from pathlib import Path; path: Path = order; path.mkdir()",
        "order.read_bytes()",
        "import shutil; shutil.rmtree('a')",
        "import sqlite3; sqlite3.connect('a')",
        "import sys; sys.stdin.read()",
    ),
    "DUR004": (
        "time.sleep(1)",
        "import threading; threading.Thread(target=print)",
        "import asyncio; asyncio.create_task(order)",
        "import anyio.to_thread; anyio.to_thread.run_sync(print)",
        "import trio; trio.sleep(1)",
        "from concurrent.futures import ThreadPoolExecutor; ThreadPoolExecutor()",
        "import multiprocessing as mp; mp.Process()",
    ),
    "DUR005": (
        "os.environ['A']",
        "os.environ.get('A')",
        "os.getenv('A')",
        "os.getpid()",
        "import sys; sys.argv[1]",
        "import platform; platform.node()",
        "import socket; socket.gethostname()",
        "hash(order)",
        "id(order)",
        "from pathlib import Path; Path.cwd()",
    ),
    "DUR008": ("print(order)", "import sys; sys.stdout.write(order)", "from pprint import pprint; pprint(order)"),
    "DUR105": (
        "engine.start(child(order))",
        "engine.runs.list()",
        "engine.handle(order)",
        "WorkflowEngine('a.db')",
        "import durable; durable.SyncWorkflowEngine('a.db')",
    ),
    "DUR107": ("charge.fn(order)", "charge.options(name='x').fn(order)"),
}
CASES = [(code, statement) for code, statements in FOUND.items() for statement in statements]


@pytest.mark.parametrize(("code", "statement"), CASES, ids=[statement for _, statement in CASES])
def test_name_is_found(code: str, statement: str) -> None:
    """A name that does not belong in a body is reported once, under its code, however it was imported."""
    assert codes(module(f"{statement}\nyield from sleep(1)")) == [code]


QUIET = (
    "time.gmtime(5)",
    "time.strftime('%H', order)",
    "datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()",
    "datetime.fromisoformat(order)",
    "at = now(); at.isoformat()",
    "random('draw').randint(1, 6)",
    "uuid('ticket').hex",
    "import random; random.Random(7).random()",
    "import random as r; dice = r.Random(order); dice.choice([1])",
    "from uuid import UUID, uuid5; uuid5(UUID(order), 'x')",
    "os.path.join('a', 'b')",
    "os.path.basename(order)",
    "from pathlib import Path; Path('a').with_suffix('.b').name",
    "import requests; raise requests.HTTPError(order)",
    "import asyncio; raise asyncio.TimeoutError()",
    "import logging; logging.getLogger('x').info('here')",
    "hash",
    "yield from call(open, 'a')",
    "yield from call(lambda: open('a').read(), name='read')",
    "time = order; time.time()",
    "print = len; print(order)",
    "order.time.time()",
    "engine = order.motor; engine.start_up()",
    "charge.fn",
    "charge.options(retry=None)",
)


@pytest.mark.parametrize("statement", QUIET)
def test_harmless_name_is_left_alone(statement: str) -> None:
    """Pure functions, activities, and other objects with a forbidden name are not reported."""
    assert codes(module(f"{statement}\nyield from sleep(1)")) == []


def test_only_workflows_are_checked() -> None:
    """Activities, other functions and module code may use any name."""
    text = module("yield from sleep(1)", more="def other():\n    print(time.time())\n\nother()")
    assert codes(text) == []


@pytest.mark.parametrize(
    "decorated",
    [
        "@workflow(name='x')\ndef body",
        "import durable\n@durable.workflow\ndef body",
        "import durable as d\n@d.workflow(version=3)\ndef body",
        "from durable import workflow as flow\n@flow\ndef body",
        "from durable.runner.definitions import workflow as flow\n@flow\nasync def body",
        "@workflow\nasync def body",
        "class Flows:\n  @staticmethod\n  @workflow\n  def body",
    ],
)
def test_workflow_is_known_by_its_decorator(decorated: str) -> None:
    """The decorator is recognised as durable's under any name."""
    reported = findings(module("time.time()", decorated=decorated))
    assert [(finding.code, finding.function, finding.workflow) for finding in reported] == [("DUR001", "body", "body")]


@pytest.mark.parametrize("made", ["workflow(name='x')(body)", "workflow(body)", "[workflow(name='y')(body)]"])
def test_workflow_may_be_made_by_a_call(made: str) -> None:
    """A function that is passed to the decorator is a workflow too."""
    assert codes(module("time.time()", decorated="def body") + f"\nMADE = {made}\n") == ["DUR001"]


def test_other_decorators_are_not_durables() -> None:
    """Another library's @workflow means nothing here."""
    assert codes(module("time.time()", decorated="from other import workflow\n@workflow\ndef body")) == []


def test_message_names_the_place_and_the_fix() -> None:
    """A finding says what, where, in which function, and what to write instead."""
    (finding,) = findings(module("late = datetime.now() > order\nyield from sleep(1)"), "shop/flows.py")
    text = module("late = datetime.now() > order").splitlines()
    line = 1 + next(place for place, words in enumerate(text) if "late" in words)
    assert str(finding) == (
        f"shop/flows.py:{line}:12: DUR001 datetime.now() reads the clock in workflow body; use now(), the recorded time"
    )
