"""Which function a stored workflow name refers to."""

from __future__ import annotations

import attrs
import pytest

from durable.errors import DuplicateWorkflow, RegistrationError, UnknownWorkflow
from durable.model.registry import Registry


@attrs.frozen(eq=False)
class Definition:
    """The parts of a workflow that the registry needs."""

    name: str
    version: int = 1
    origin: str = "shop.checkout"


def test_registry_knows_names_and_versions() -> None:
    """A workflow is found by its name and version together."""
    first, second, other = Definition("checkout"), Definition("checkout", 2), Definition("refund")
    registry = Registry([first, second, other])
    assert registry.get("checkout", 1) is first
    assert registry.get("checkout", 2) is second
    assert registry.get("refund", 1) is other
    assert list(registry) == [first, second, other]


@pytest.mark.parametrize(("name", "version"), [("refund", 1), ("checkout", 2), ("Checkout", 1), ("", 1)])
def test_registry_refuses_unknown_workflows(name: str, version: int) -> None:
    """The error for an unknown name or version says what to do."""
    with pytest.raises(UnknownWorkflow, match="import the module that defines it") as caught:
        Registry([Definition("checkout")]).get(name, version)
    assert (caught.value.name, caught.value.version) == (name, version)
    assert isinstance(caught.value, RegistrationError)


def test_registry_refuses_two_functions_of_one_name() -> None:
    """Two functions with one name and version are refused with both of their places, and the first stays."""
    first = Definition("checkout")
    registry = Registry([first])
    with pytest.raises(DuplicateWorkflow) as caught:
        registry.add(Definition("checkout", origin="shop.other"))
    assert (caught.value.first, caught.value.second) == ("shop.checkout", "shop.other")
    assert registry.get("checkout", 1) is first
    with pytest.raises(DuplicateWorkflow):
        Registry([Definition("a", origin="x"), Definition("a", origin="y")])


def test_registry_takes_the_same_definition_twice() -> None:
    """Adding the same definition again changes nothing."""
    first = Definition("checkout")
    registry = Registry([first, first])
    registry.add(first)
    assert list(registry) == [first]


def test_registry_takes_a_reloaded_function() -> None:
    """The same function defined again replaces the first, as a module that is reloaded does."""
    registry = Registry([Definition("checkout")])
    reloaded = Definition("checkout")
    registry.add(reloaded)
    assert registry.get("checkout", 1) is reloaded
    assert list(registry) == [reloaded]


def test_registry_can_grow_while_it_is_walked() -> None:
    """Iterating returns the definitions that were there when it began."""
    registry = Registry([Definition("a")])
    for definition in registry:
        registry.add(Definition(definition.name + "a"))
    assert [definition.name for definition in registry] == ["a", "aa"]


def test_registry_is_empty_at_first() -> None:
    """A registry holds only what was added to it."""
    assert list(Registry[Definition]()) == []
