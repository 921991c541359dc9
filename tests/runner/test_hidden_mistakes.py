"""A mistake that a handler could hide is told all the same."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.runner.builders import Declined, charge, misuse, refuse, workflow_of

log = logging.getLogger(__name__)


def swallowed() -> None:
    """Takes an operation for its result where everything is caught."""
    with contextlib.suppress(Exception):
        assert charge(1)  # type: ignore[truthy-bool]


def test_broad_handler_does_not_hide_the_mistake() -> None:
    """A misuse that the body has caught is told at the end of the step."""
    assert "its truth was tested" in misuse(workflow_of(swallowed))


def logged() -> Any:
    """Tells of an error that was caught, then leaves an operation in a variable."""
    try:
        refuse(None)
    except Declined as error:
        log.warning("it was refused: %s", error)
    paid: Any = charge(1)
    paid = 5
    return paid + 1


def raised_from() -> Any:
    """Has a handler that raises another error, and overwrites an operation elsewhere."""
    try:
        paid: Any = charge(1)
        paid = 5
    except Declined as error:
        raise RuntimeError(error) from None
    return paid


@pytest.mark.parametrize("statement", [logged, raised_from], ids=lambda one: one.__name__)
def test_handler_that_only_tells_of_its_error_hides_no_mistake(statement: Callable[[], Any]) -> None:
    """An error that was logged, or raised as another one, holds no operation back."""
    assert "but never yielded" in misuse(workflow_of(statement))
