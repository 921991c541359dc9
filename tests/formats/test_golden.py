"""What is stored is a format: no byte of it changes by accident."""

from __future__ import annotations

import json

import pytest

from tests.formats.golden import GOLDEN, formats, written

PINNED = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", sorted(PINNED))
def test_stored_form_is_pinned(name: str) -> None:
    """A change here needs a migration, a kept store of the version before, and a new `golden.json`."""
    assert written(formats()[name]) == PINNED[name]


def test_everything_that_is_made_is_pinned() -> None:
    """A new row or note gets its line in the file."""
    assert set(formats()) == set(PINNED)
