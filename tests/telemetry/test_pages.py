"""The dashboard, the alert rules and the page name metrics that exist, and all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from durable.telemetry import names
from durable.telemetry.names import METRICS

DOCS = Path(__file__).parents[2] / "docs"
SAMPLES = {
    f"{metric.prometheus}{suffix}"
    for metric in METRICS
    for suffix in {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}[metric.kind]
}


def named(text: str) -> set[str]:
    """The metrics that a text mentions."""
    return set(re.findall(r"\bdurable_[a-z_]+", text))


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yml"])
def test_file_names_metrics_that_exist(name: str) -> None:
    """Every sample in a query is one that Prometheus gets."""
    assert named((DOCS / name).read_text()) <= SAMPLES


def test_labels_in_queries_exist() -> None:
    """A label that a query of the dashboard groups by belongs to its metric."""
    labels = {f"{metric.prometheus}": {*metric.labels, "le"} for metric in METRICS}
    for panel in json.loads((DOCS / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            (sample,) = named(target["expr"])
            family = re.sub(r"_(total|bucket|count|sum)$", "", sample)
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            used = {label.strip() for group in grouped for label in group.split(",")}
            assert used <= labels[family], target


def test_dashboard_shows_every_metric() -> None:
    """No metric is forgotten."""
    shown = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in named((DOCS / "grafana.json").read_text())}
    assert {metric.prometheus for metric in METRICS} <= shown


def test_page_lists_every_metric() -> None:
    """The table of docs/telemetry.md is that of the code."""
    rows = [
        f"| `{metric.prometheus}` | {metric.kind} | {', '.join(metric.labels)} | {metric.about} |" for metric in METRICS
    ]
    table = [line for line in (DOCS / "telemetry.md").read_text().splitlines() if line.startswith("| `durable_")]
    assert table == rows


def test_names_of_spans_and_attributes_are_pinned() -> None:
    """They are API as well."""
    texts = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert texts == {
        "SPAN_START": "workflow.start",
        "SPAN_SEND": "workflow.send_event",
        "SPAN_STEP": "workflow.step",
        "SPAN_ATTEMPT": "workflow.attempt",
        "WORKFLOW_ID": "workflow.id",
        "WORKFLOW_NAME": "workflow.name",
        "ROUND": "workflow.round",
        "STEP_NAME": "workflow.step.name",
        "STEP_KIND": "workflow.step.kind",
        "STEP_POSITION": "workflow.step.position",
        "STEP_ATTEMPT": "workflow.step.attempt",
        "OUTCOME": "workflow.step.outcome",
        "EVENT_NAME": "workflow.event.name",
        "ERROR_TYPE": "error.type",
        "LINK": "workflow.link",
        "LINK_PREVIOUS": "previous step",
        "LINK_EVENT": "event",
        "LINK_ATTEMPT": "attempt",
        "LINK_PARENT": "parent",
    }
