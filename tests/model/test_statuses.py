"""The status in an error about an ended workflow, before and after the error was stored."""

from __future__ import annotations

from durable import WorkflowStatus, WorkflowTerminated
from durable.model.error_codec import pack_error, unpack_error


def test_error_of_an_ended_workflow_names_its_status() -> None:
    """The status is a `WorkflowStatus`, and the message names it."""
    error = WorkflowTerminated("w", WorkflowStatus.FAILED)
    assert (error.workflow_id, error.status) == ("w", WorkflowStatus.FAILED)
    assert str(error) == "workflow 'w' has ended (failed) and accepts nothing more"


def test_stored_error_of_an_ended_workflow_is_restored() -> None:
    """What is stored is plain text, as it always was, and reads back as the same class with the same fields."""
    text = pack_error(WorkflowTerminated("w", WorkflowStatus.CANCELLED))
    back = unpack_error(text)
    assert isinstance(back, WorkflowTerminated)
    assert (back.workflow_id, back.status, back.args) == ("w", WorkflowStatus.CANCELLED, ("w", "cancelled"))


def test_error_of_an_ended_workflow_needs_only_its_args() -> None:
    """An error that is restored without its constructor has its fields and its message."""
    error = WorkflowTerminated.__new__(WorkflowTerminated)
    error.args = ("w", "succeeded")
    assert (error.status, str(error)) == (WorkflowStatus.SUCCEEDED, str(WorkflowTerminated("w", "succeeded")))
