"""The workflows, the codec or the engine that `module` or `module:attribute` names on the command line.

This is the only part of the command line that imports the user's code. Every failure is a `click.UsageError` with one
sentence.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from durable.errors import DuplicateWorkflow
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import REGISTRY, WorkflowDef


def load_workflows(specs: Sequence[str]) -> Registry[WorkflowDef[Any, Any]]:
    """The workflows that an engine with this code would have.

    `module` imports a module and takes every workflow that is defined by then, as an engine without `workflows=` does.
    `module:attribute` takes one workflow or a list of them.
    """
    workflows: list[WorkflowDef[Any, Any]] = []
    takes_all = False
    for spec in specs:
        module, _, attribute = spec.partition(":")
        loaded = _import(module)
        if attribute:
            workflows += _workflows(spec, _attribute(spec, loaded, attribute))
        takes_all = takes_all or not attribute
    try:
        return Registry([*(REGISTRY if takes_all else ()), *workflows])
    except DuplicateWorkflow as error:
        raise click.UsageError(str(error)) from error


def load_codec(spec: str | None) -> Codec:
    """The codec that the engine would have; the default without a spec."""
    if spec is None:
        return Codec()
    module, _, attribute = spec.partition(":")
    if not attribute:
        raise click.UsageError(f"--codec {spec}: write module:attribute")
    codec = _attribute(spec, _import(module), attribute)
    if not isinstance(codec, Codec):
        raise click.UsageError(f"--codec {spec}: expected a Codec, got {type(codec).__name__}")
    return codec


def load_attribute(spec: str) -> Any:
    """The attribute that `module:attribute` names. Raises `click.UsageError`."""
    module, colon, attribute = spec.partition(":")
    if not colon or not module or not attribute:
        raise click.UsageError(f"{spec}: write module:attribute, such as shop.service:engine")
    return _attribute(spec, _import(module), attribute)


def look_in(folder: str) -> None:
    """Let modules in this folder be imported, as `python -m` does with the current one. A console script does not."""
    path = os.path.abspath(folder)
    if path not in map(os.path.abspath, sys.path):
        sys.path.insert(0, path)


def _import(module: str) -> Any:
    """Import a module. Raises `click.UsageError` for any error in it, with a hint if the module itself is missing."""
    look_in(os.curdir)
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            hint = "; run the command where it can be imported, or set PYTHONPATH"
        else:
            hint = ""
        raise click.UsageError(f"{module} cannot be imported: {type(error).__name__}: {error}{hint}") from error


def _attribute(spec: str, module: Any, path: str) -> Any:
    """The attribute at the end of a dotted path. Raises `click.UsageError`."""
    value = module
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise click.UsageError(f"{spec}: there is no attribute {name!r}") from None
    return value


def _workflows(spec: str, value: Any) -> list[WorkflowDef[Any, Any]]:
    """The workflows in an attribute: one, or an iterable of them. Raises `click.UsageError` for anything else."""
    several = [value] if isinstance(value, WorkflowDef) or not isinstance(value, Iterable) else list(value)
    for workflow in several:
        if not isinstance(workflow, WorkflowDef):
            raise click.UsageError(f"{spec}: expected a @workflow function or a list of them, got {workflow!r:.200}")
    return several
