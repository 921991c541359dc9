"""Stored bytes are data: nothing in them is imported or run, and only their own workflow is affected."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.hook import Hook
from tests.fuzz.mutations import MARK, mutate

ROOT = Path(__file__).parents[2]
ROUNDS = 18
TEXTS = 20_000


def _run(module: str, *arguments: object) -> dict[str, Any]:
    """The answer of another process."""
    command = [sys.executable, "-m", f"tests.fuzz.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("loop", "seed"), [("asyncio", 1), ("trio", 2)])
def test_spoilt_rows_harm_nobody_else(tmp_path: Path, loop: str, seed: int) -> None:
    """A thousand corrupt rows do not stop the engine or other workflows, and the audit hook reports nothing."""
    figures = _run("worker", tmp_path, seed, ROUNDS, loop)
    assert figures["violations"] == []
    assert figures["offences"] == []
    assert figures["audited"] > 0
    assert figures["rows"] >= 1_000
    assert figures["ends"]["parked"] > ROUNDS
    assert figures["refused"]["CodecError"] > ROUNDS
    assert not list(ROOT.rglob(f"*{MARK}*"))


@pytest.mark.timeout(120)
def test_spoilt_texts_are_codec_errors() -> None:
    """A coder of any type returns a value or raises a `CodecError`, for any text."""
    figures = _run("codec_worker", 1, TEXTS)
    assert (figures["wrong"], figures["offences"]) == ([], [])
    assert figures["refused"] > TEXTS / 2
    assert figures["read"] > TEXTS / 50


@pytest.mark.parametrize(
    ("event", "args", "is_noted"),
    [
        ("import", ("os", None), True),
        ("exec", (None,), True),
        ("pickle.find_class", ("os", "system"), True),
        ("os.system", (b"true",), True),
        ("open", ("/elsewhere", "w", 0), True),
        ("open", ("/elsewhere", None, 1), True),
        ("open", ("/elsewhere", "r", 0), False),
        ("open", ("/store/file", "w", 0), False),
        ("sqlite3.connect", ("file",), False),
    ],
)
def test_hook_is_not_blind(event: str, args: tuple[Any, ...], is_noted: bool) -> None:
    """The hook records what is forbidden, while it is on and only then."""
    hook = Hook("/store")
    hook(event, args)
    assert hook.offences == []
    with hook.watching():
        hook(event, args)
    assert bool(hook.offences) is is_noted


def test_same_seed_spoils_in_the_same_way() -> None:
    """A failing seed can be repeated."""
    first, again = (
        [mutate(chance, '{"a":[1,2]}') for _ in range(500)] for chance in (random.Random(1), random.Random(1))
    )
    assert first == again
    assert len(set(first)) > 100
