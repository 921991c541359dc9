"""`lint`: the command. Reads files, runs the checks and prints the findings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import attrs
import click

from durable.cli.lint.codes import RULES, Rule
from durable.cli.lint.files import find_files, read_text
from durable.cli.lint.findings import Finding, Linted
from durable.cli.lint.findings import lint as lint_files


def _codes(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The codes, or prefixes of codes, in an option; separated by commas. Refuses a prefix that matches no code."""
    wanted = tuple(prefix.strip().upper() for text in texts for prefix in text.split(",") if prefix.strip())
    for prefix in wanted:
        if not any(code.startswith(prefix) for code in RULES):
            raise click.BadParameter(f"there is no code {prefix}; the codes are {', '.join(RULES)}")
    return wanted


def _explain(context: click.Context, _option: click.Parameter, code: str | None) -> None:
    """The callback of `--explain`: prints the explanation of a code and exits. It is eager, so paths are not needed."""
    if code is None:
        return
    rule = RULES.get(code.strip().upper())
    if rule is None:
        raise click.BadParameter(f"there is no code {code}; the codes are {', '.join(RULES)}")
    click.echo(explanation(rule))
    context.exit()


@click.command(short_help="Find mistakes in workflow functions, without running them.")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--select", multiple=True, callback=_codes, metavar="CODES", help="Only these: DUR003, or DUR1 for a group."
)
@click.option("--ignore", multiple=True, callback=_codes, metavar="CODES", help="All except these.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@click.option(
    "--explain",
    metavar="CODE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Explain a code and exit.",
)
def lint(paths: tuple[str, ...], *, select: tuple[str, ...], ignore: tuple[str, ...], as_json: bool) -> int:
    """Find what would break on replay in the workflow functions of PATHS: files, folders, or names of packages.

    Workflows are the functions with durable's @workflow. Helpers and functions that they call in the same files are
    checked with them. Activities are not checked. The code is read and never imported.

    \b
    durable lint src/shop
    durable lint shop --ignore DUR008
    durable lint --explain DUR103

    A comment on the line, `# durable: ignore[DUR003]`, leaves a finding out.

    Exit codes: 0 nothing found, 1 something found, 2 a path or a code that does not exist.
    """
    try:
        linted = lint_files((path, read_text(path)) for path in find_files(paths))
    except FileNotFoundError as error:
        name = error.filename or error
        raise click.UsageError(f"{name}: there is no such file, folder or package") from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from error
    findings = [finding for finding in linted.findings if _is_wanted(finding.code, select, ignore)]
    click.echo(_as_json(findings) if as_json else _as_text(findings, linted))
    return 1 if findings else 0


def explanation(rule: Rule) -> str:
    """The explanation of a code, for people: why it matters, the fix, and both examples."""
    indented = {name: _indented(text) for name, text in (("bad", rule.bad), ("good", rule.good))}
    return (
        f"{rule.code}: {rule.title}\n\n{rule.why}\n\nFix: {rule.fix}.\n\n"
        f"Instead of\n\n{indented['bad']}\n\nwrite\n\n{indented['good']}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _is_wanted(code: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    """Whether a code passes `--select` and `--ignore`, both of which take prefixes."""
    return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))


def _as_json(findings: Iterable[Finding]) -> str:
    data: list[dict[str, Any]] = [attrs.asdict(finding) | {"fix": finding.fix} for finding in findings]
    return json.dumps(data, ensure_ascii=False, indent=2)


def _as_text(findings: list[Finding], linted: Linted) -> str:
    """The findings, one per line, and a last line with the totals and a hint."""
    scope = f"{linted.bodies:,} functions of workflows in {linted.files:,} files"
    if not findings:
        return f"{scope}: nothing found"
    first = findings[0].code
    lines = [*map(str, findings), f"{len(findings):,} found in {scope}; why: durable lint --explain {first}"]
    return "\n".join(lines)
