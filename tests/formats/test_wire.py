"""Every request, answer and refusal can be sent, and its form is pinned."""

from __future__ import annotations

import importlib
import json
import pkgutil
from types import UnionType
from typing import Any, Literal, get_args

import attrs
import pytest

import durable.engine
from durable import AllFailed, Cancelled, InvariantViolated, PauseExpired, RemoteError
from durable.engine.operations import OfBody, OfSchedule, OfWorkflow, Operation, SendEvent
from durable.engine.remote import wire
from tests.formats.wire import EXAMPLES, GOLDEN, example_of, forms, public_errors

PINNED = json.loads(GOLDEN.read_text())
NAMES = [wire.write_operation(operation)["operation"] for operation, _ in EXAMPLES]
ERRORS = pytest.mark.parametrize("kind", public_errors(), ids=lambda kind: kind.__name__)


def all_operations() -> set[type[Operation[Any]]]:
    """Every operation defined in a module of the engine."""
    for module in pkgutil.walk_packages(durable.engine.__path__, "durable.engine."):
        importlib.import_module(module.name)
    bases = (Operation, OfWorkflow, OfSchedule, OfBody)
    kinds = {kind for base in bases for kind in base.__subclasses__()}
    return {kind for kind in kinds.difference(bases) if kind.__module__.startswith("durable.")}


def over_the_wire(form: dict[str, Any]) -> dict[str, Any]:
    """A form as it arrives."""
    return wire.read_text(wire.write_text(form))


def test_every_operation_travels_or_is_the_engine_s_own() -> None:
    """A new operation needs a line in one of the two tables, and no operation is in both."""
    travelling = set(wire.OPERATIONS.values())
    assert travelling | wire.OWN == all_operations()
    assert not travelling & wire.OWN
    assert len(travelling) == len(wire.OPERATIONS)


def test_reads_are_operations_of_callers() -> None:
    """What needs no request id is asked by callers, and every list is among it."""
    travelling = set(wire.OPERATIONS.values())
    assert travelling >= wire.READS >= {kind for kind in travelling if kind.is_list}


def test_every_form_has_an_example() -> None:
    """There is an example of each operation, with a reply of each promised type, and of each public error."""
    assert list(wire.OPERATIONS) == NAMES
    for operation, replies in EXAMPLES:
        promised = wire.reply_type(type(operation))
        for kind in get_args(promised) if isinstance(promised, UnionType) else ():
            assert any(isinstance(reply, kind) for reply in replies), (operation, kind)
    assert set(forms()) == set(PINNED)


@pytest.mark.parametrize("name", sorted(PINNED))
def test_form_is_pinned(name: str) -> None:
    """A change here must be readable by engines and clients of the version before."""
    assert json.loads(json.dumps(forms()[name])) == PINNED[name]


@pytest.mark.parametrize(("operation", "replies"), EXAMPLES, ids=NAMES)
def test_operation_and_replies_come_back(operation: Operation[Any], replies: tuple[Any, ...]) -> None:
    """They are read back unchanged, also with fields that a newer version has added."""
    form = over_the_wire(wire.write_operation(operation))
    assert wire.read_operation(form) == operation
    assert wire.read_operation({**form, "trace": "x", "fields": {**form["fields"], "newer": [1]}}) == operation
    for reply in replies:
        answer = wire.read_answer(type(operation), over_the_wire(wire.write_reply(type(operation), reply)))
        if isinstance(reply, Exception):
            assert (type(answer), answer.args) == (type(reply), reply.args)
        else:
            assert (type(answer), answer) == (type(reply), reply)


@ERRORS
def test_error_comes_back_as_itself(kind: type[BaseException]) -> None:
    """It is raised where the reply was expected: the same class, fields and message."""
    error = example_of(kind)
    with pytest.raises(kind) as caught:
        wire.read_answer(SendEvent, over_the_wire(wire.write_error(error)))
    assert (type(caught.value), str(caught.value)) == (kind, str(error))
    fields: Any = kind
    names = [field.name for field in attrs.fields(fields)] if attrs.has(fields) and kind is not AllFailed else []
    assert [getattr(caught.value, name) for name in names] == [getattr(error, name) for name in names]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(None, None), (int, "int"), (list[int], "list[int]"), (Literal["x" * 500], f"typing.Literal['{'x' * 184}")],
)
def test_type_of_a_payload_travels_as_its_name(kind: Any, name: str | None) -> None:
    """It is shown and never looked up, so only its name arrives; passed on, it stays the same."""
    sent = SendEvent(name="paid", payload="5", payload_type=kind)
    for _ in range(2):
        form = over_the_wire(wire.write_operation(sent))
        assert form["fields"]["payload_type"] == name
        received = wire.read_operation(form)
        assert isinstance(received, SendEvent)
        assert (received.payload_type is None, repr(received.payload_type)) == (name is None, str(name))
        sent = received


def refused_with(form: Any) -> BaseException:
    """The error of a form."""
    with pytest.raises(BaseException) as caught:
        wire.read_answer(SendEvent, {"error": form})
    return caught.value


def test_unknown_error_arrives_as_remote_error() -> None:
    """So does a user's error, one of another version, or a name of ours that is not an error; no class is looked up."""
    for name in ("durable.Newer", "builtins.KeyboardInterrupt", "durable.FailedUndo", "os.system"):
        error = refused_with({"name": name, "message": "why", "fields": {"size": 5}, "newer": 1})
        assert isinstance(error, RemoteError)
        assert (error.name, error.fields, error.message, str(error)) == (name, {"size": 5}, "why", f"{name}: why")
    nested = refused_with(wire.write_error(AllFailed({0: ValueError("no"), "left": PauseExpired("w", "0")}))["error"])
    assert isinstance(nested, AllFailed)
    assert {key: type(error) for key, error in nested.errors.items()} == {0: RemoteError, "left": PauseExpired}
    old = refused_with({"name": "durable.PauseExpired", "message": "why", "fields": {"workflow": "w"}})
    assert isinstance(old, RemoteError)
    assert old.fields == {"workflow": "w"}


def test_error_of_a_user_is_told_by_name_and_message() -> None:
    """Its fields are kept where its class is loaded, also for a subclass of one of ours."""

    class Declined(PauseExpired):
        """Not ours."""

    form = wire.write_error(Declined("w", "0"))["error"]
    assert (form["message"], form["fields"]) == (str(PauseExpired("w", "0")), {})
    assert form["name"].endswith("Declined")


def test_the_two_outside_the_tree_travel_too() -> None:
    """A cancellation keeps its reason, and a bug of ours its message."""
    cancelled = refused_with(wire.write_error(Cancelled("enough"))["error"])
    assert isinstance(cancelled, Cancelled)
    assert cancelled.reason == "enough"
    assert str(refused_with(wire.write_error(InvariantViolated("half"))["error"])) == "half"
