"""`import durable` loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Optional or slow, and needed by few.
ABSENT = ("opentelemetry", "prometheus_client", "sqlite_utils", "click", "pydantic", "trio", "matplotlib", "IPython")
# Parts of durable at the edge.
EDGES = ("durable.telemetry", "durable.cli", "durable.web", "durable.testing", "durable.contrib")


def loaded(code: str) -> set[str]:
    """The modules that are loaded after running some code in a new process."""
    text = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def below(modules: set[str], roots: tuple[str, ...]) -> list[str]:
    """Those of the modules that are one of the roots, or in one."""
    return sorted(name for name in modules if any(name == root or name.startswith(f"{root}.") for root in roots))


def test_import_of_durable_loads_no_edge_and_no_optional_library() -> None:
    """Neither telemetry, the command line, a web framework nor sqlite-utils is loaded."""
    modules = loaded("import durable")
    assert below(modules, ABSENT + EDGES) == []
    # Everything of durable that is loaded; grows with the engine, but not by a room that nobody asked for.
    assert len(below(modules, ("durable",))) < 200


def test_import_of_telemetry_loads_no_vendor() -> None:
    """Facts, loggers and filters come without OpenTelemetry and Prometheus."""
    assert below(loaded("import durable.telemetry"), ABSENT) == []


@pytest.mark.parametrize(
    ("name", "vendor"), [("PrometheusObserver", "prometheus_client"), ("OpenTelemetryObserver", "opentelemetry")]
)
def test_observer_loads_its_library_when_it_is_used(name: str, vendor: str) -> None:
    """The name imports the library, and only its own."""
    modules = loaded(f"from durable.telemetry import {name}")
    others = tuple({"prometheus_client", "opentelemetry"} - {vendor})
    assert vendor in modules
    assert below(modules, others) == []


def test_unknown_name_is_an_attribute_error() -> None:
    """The lazy names do not hide a typing error."""
    import durable.telemetry

    with pytest.raises(AttributeError, match="Promteheus"):
        _ = durable.telemetry.Promteheus
