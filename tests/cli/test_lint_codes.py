"""The table of codes: each example is reported, each correction is not, and the docs show the same table."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.cli.lint.codes import RULES, Rule
from durable.cli.lint.command import explanation
from tests.cli.kit import codes, module

DOCS = Path(__file__).parents[2] / "docs" / "checks.md"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_example_of_a_code_is_found_and_its_correction_is_not(rule: Rule) -> None:
    """The bad example has exactly this finding, and the good one has none."""
    assert codes(module(rule.bad)) == [rule.code]
    assert codes(module(rule.good)) == []


def table() -> str:
    """The table of codes as the docs show it."""
    rows = [f"| `{rule.code}` | {rule.title} | {rule.why} | {rule.fix} |" for rule in RULES.values()]
    return "\n".join(["| code | what | why | fix |", "|---|---|---|---|", *rows])


def test_documents_show_the_table() -> None:
    """docs/checks.md lists every code in the words of the command."""
    assert table() in DOCS.read_text(), f"the table should be:\n{table()}"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_explanation_says_everything(rule: Rule) -> None:
    """`--explain` prints the reason, the fix and both examples."""
    text = explanation(rule)
    for part in (rule.code, rule.title, rule.why, rule.fix, *rule.bad.splitlines(), *rule.good.splitlines()):
        assert part in text
