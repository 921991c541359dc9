"""Runs every check over a set of files, and drops the findings with an ignore comment.

Knows the order of the work: parse, find the bodies, check them, apply the `# durable: ignore` comments.

All files are parsed before the first check, because a workflow in one file may call a helper in another. A check is a
function that gets the project and a body, and yields (node, code, message). It does not know about files, comments or
the options of the command.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from durable.cli.lint.bodies import Bodies, Body
from durable.cli.lint.checks_of_definitions import check_definitions
from durable.cli.lint.checks_of_names import check_names
from durable.cli.lint.checks_of_operations import check_operations
from durable.cli.lint.checks_of_state import check_state
from durable.cli.lint.codes import RULES
from durable.cli.lint.meanings import Module, Project

_IGNORE = re.compile(r"#\s*durable:\s*ignore(?:\[([A-Z0-9,\s]*)\])?")
_CHECKS = (check_names, check_operations, check_state)


@attrs.frozen(kw_only=True, order=True)
class Finding:
    """One mistake, at one place. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    code: str
    message: str
    function: str = ""
    workflow: str = ""
    end_line: int = 0

    @property
    def key(self) -> tuple[str, int, int, str]:
        """The identity of a finding: two findings with the same key are one mistake."""
        return self.path, self.line, self.column, self.code

    @property
    def fix(self) -> str:
        """What to write instead."""
        return RULES[self.code].fix

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.code} {self.message}; {self.fix}"


@attrs.frozen
class Linted:
    """The result: the findings in order, the number of files, and the number of bodies in them."""

    findings: tuple[Finding, ...]
    files: int
    bodies: int


def lint(sources: Iterable[tuple[Path, str | None]]) -> Linted:
    """Check files, each with its text; None for a file that is not text."""
    project = Project()
    # By place and code: `httpx.Client().get()` is one mistake, although both calls are wrong.
    findings: dict[tuple[str, int, int, str], Finding] = {}
    ignored: dict[Module, dict[int, str]] = {}
    count = 0
    for path, text in sources:
        count += 1
        try:
            if text is None:
                raise SyntaxError("it is not text")
            module = project.add(path, ast.parse(text))
            ignored[module] = dict(_ignores(text))
        except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
            finding = _unreadable(path, error)
            findings[finding.key] = finding
    bodies = Bodies(project)
    checked = [(body.module, finding) for body in bodies for finding in _check(project, body)]
    checked += [(module, finding) for module in project.modules for finding in _check_file(project, module)]
    for module, finding in checked:
        if not _is_ignored(finding, ignored[module]):
            findings.setdefault(finding.key, finding)
    return Linted(tuple(sorted(findings.values())), count, sum(1 for _ in bodies))


def _check(project: Project, body: Body) -> Iterator[Finding]:
    """The findings in one body. Messages end with the function and its workflow."""
    for check in _CHECKS:
        for node, code, message in check(project, body):
            yield Finding(
                path=str(body.module.path),
                line=node.lineno,
                column=node.col_offset + 1,
                code=code,
                message=f"{message} in {body.label}",
                function=body.function.name,
                workflow=body.workflow,
                end_line=node.end_lineno or node.lineno,
            )


def _check_file(project: Project, module: Module) -> Iterator[Finding]:
    """The findings in the definitions of one file."""
    for node, code, message in check_definitions(project, module):
        yield Finding(
            path=str(module.path),
            line=node.lineno,
            column=node.col_offset + 1,
            code=code,
            message=message,
            end_line=node.lineno,
        )


def _unreadable(path: Path, error: Exception) -> Finding:
    """The finding for a file that cannot be parsed."""
    line = (error.lineno if isinstance(error, SyntaxError) else None) or 1
    problem = error.msg if isinstance(error, SyntaxError) else str(error)
    return Finding(
        path=str(path), line=line, column=1, code="DUR000", message=f"cannot be checked: {problem}", end_line=line
    )


def _ignores(text: str) -> Iterator[tuple[int, str]]:
    """The lines with an ignore comment, and the codes in it. Without codes it ignores all of them."""
    if "durable:" not in text:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := _IGNORE.search(token.string)):
            yield token.start[0], match[1] or ""


def _is_ignored(finding: Finding, ignored: dict[int, str]) -> bool:
    """Whether a comment on the first or the last line of the finding names its code."""
    for line in (finding.line, finding.end_line):
        codes = ignored.get(line)
        if codes is not None and (not codes.strip() or finding.code in re.split(r"[,\s]+", codes)):
            return True
    return False
