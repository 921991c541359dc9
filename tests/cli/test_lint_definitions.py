"""What the lint reports about definitions: one name for two workflows or activities."""

from __future__ import annotations

import pytest

from tests.cli.kit import findings

ACTIVITY = "@activity{options}\ndef {name}(): ...\n"
WORKFLOW = "@workflow{options}\ndef {name}():\n    yield from sleep(1)\n"


def lines(*parts: str) -> list[tuple[str, int]]:
    """The code and the line of each finding in a file of these parts."""
    return [(finding.code, finding.line) for finding in findings("from durable import *\n" + "".join(parts))]


def of(template: str, name: str, options: str = "") -> str:
    """The text of a definition."""
    return template.format(name=name, options=options)


def test_second_definition_of_a_name_is_found() -> None:
    """The second definition of a name is reported, whether the name is the function's or explicit."""
    assert lines(of(WORKFLOW, "flow"), of(WORKFLOW, "flow")) == [("DUR109", 6)]
    assert lines(of(ACTIVITY, "pay", "(name='x')"), of(ACTIVITY, "other", "(name='x')")) == [("DUR109", 5)]
    assert lines(of(ACTIVITY, "pay"), of(ACTIVITY, "other", "(name='pay')")) == [("DUR109", 5)]


def test_message_names_both_lines() -> None:
    """The message says what is defined twice, and where the first definition is."""
    (finding,) = findings("from durable import *\n" + of(ACTIVITY, "pay") + of(ACTIVITY, "pay"))
    assert (finding.line, finding.message) == (5, "activity 'pay' is defined on line 3 as well")


CLASS = "class A:\n    @activity\n    def pay(self): ...\nclass B:\n    @activity\n    def pay(self): ...\n"
BRANCHES = "if True:\n    @activity\n    def pay(): ...\nelse:\n    @activity\n    def pay(): ...\n"


@pytest.mark.parametrize(
    "parts",
    [
        (of(WORKFLOW, "flow"), of(WORKFLOW, "flow", "(version=2)")),
        (of(WORKFLOW, "flow"), of(ACTIVITY, "flow")),
        (of(ACTIVITY, "pay", "(name=f'{1}')"), of(ACTIVITY, "pay", "(name=f'{2}')")),
        (of(ACTIVITY, "pay", "(**{'name': 'a'})"), of(ACTIVITY, "pay", "(**{'name': 'b'})")),
        ("def pay(): ...\n", "def pay(): ...\n"),
        (CLASS,),
        (BRANCHES,),
    ],
    ids=["versions", "sorts", "made-up names", "options", "plain", "classes", "branches"],
)
def test_other_definitions_are_not(parts: tuple[str, ...]) -> None:
    """Another version, another class, another branch and an unreadable name are not reported."""
    assert lines(*parts) == []


def test_comment_leaves_it_out() -> None:
    """A comment on the line of the definition hides the finding."""
    again = "@activity\ndef pay(): ...  # durable: ignore[DUR109]\n"
    assert lines(of(ACTIVITY, "pay"), again) == []
