"""What `module` and `module:attribute` on the command line stand for: workflows, and a codec.

Imports the user's code; nothing else in the command line does. Whatever goes wrong is a refusal in one sentence.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import click

from durable.errors import DuplicateWorkflow
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import REGISTRY, WorkflowDef


def load_workflows(specs: Sequence[str]) -> Registry[WorkflowDef[Any, Any]]:
    """The workflows that an engine would know.

    `module` imports a module and takes every workflow that was defined by then, as an engine without `workflows=` does;
    `module:attribute` takes one workflow or a list of them.
    """
    found: list[WorkflowDef[Any, Any]] = []
    takes_all = False
    for spec in specs:
        module, _, attribute = spec.partition(":")
        loaded = _import(module)
        if attribute:
            found += _workflows(spec, _attribute(spec, loaded, attribute))
        takes_all = takes_all or not attribute
    try:
        return Registry([*(REGISTRY if takes_all else ()), *found])
    except DuplicateWorkflow as error:
        raise click.UsageError(str(error)) from error


def load_codec(spec: str | None) -> Codec:
    """The codec that an engine would have."""
    if spec is None:
        return Codec()
    module, _, attribute = spec.partition(":")
    if not attribute:
        raise click.UsageError(f"--codec {spec}: write module:attribute")
    codec = _attribute(spec, _import(module), attribute)
    if not isinstance(codec, Codec):
        raise click.UsageError(f"--codec {spec}: it is no Codec but {type(codec).__name__}")
    return codec


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            hint = "; run the command where it can be imported, or set PYTHONPATH"
        else:
            hint = ""
        raise click.UsageError(f"{module} cannot be imported: {type(error).__name__}: {error}{hint}") from error


def _attribute(spec: str, module: Any, path: str) -> Any:
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise click.UsageError(f"{spec}: there is no attribute {name!r}") from None
    return found


def _workflows(spec: str, found: Any) -> list[WorkflowDef[Any, Any]]:
    several = [found] if isinstance(found, WorkflowDef) or not isinstance(found, Iterable) else list(found)
    for one in several:
        if not isinstance(one, WorkflowDef):
            raise click.UsageError(f"{spec}: takes a @workflow function or a list of them, not {one!r:.200}")
    return several
