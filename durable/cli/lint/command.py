"""`lint`: the command. Reads files, has them checked, and tells what was found."""

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


def _codes(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Codes or beginnings of codes, several with commas. Refuses what is the beginning of none."""
    wanted = tuple(one.strip().upper() for text in given for one in text.split(",") if one.strip())
    for one in wanted:
        if not any(code.startswith(one) for code in RULES):
            raise click.BadParameter(f"there is no code {one}; the codes are {', '.join(RULES)}")
    return wanted


def _explain(context: click.Context, _option: click.Parameter, code: str | None) -> None:
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
@click.option("--ignore", multiple=True, callback=_codes, metavar="CODES", help="All but these.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@click.option(
    "--explain",
    metavar="CODE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Say what a code means, and leave.",
)
def lint(paths: tuple[str, ...], *, select: tuple[str, ...], ignore: tuple[str, ...], as_json: bool) -> int:
    """Find what would break on replay in the workflow functions of PATHS: files, folders, or names of packages.

    Workflows are the functions with durable's @workflow; helpers and functions that they call in the same files are
    checked with them. Activities may do as they like. The code is read and never imported.

    \b
    python -m durable lint src/shop
    python -m durable lint shop --ignore DUR008
    python -m durable lint --explain DUR103

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
    findings = [one for one in linted.findings if _is_wanted(one.code, select, ignore)]
    click.echo(_as_json(findings) if as_json else _as_text(findings, linted))
    return 1 if findings else 0


def explanation(rule: Rule) -> str:
    """A code for people."""
    indented = {name: _indented(text) for name, text in (("bad", rule.bad), ("good", rule.good))}
    return (
        f"{rule.code}: {rule.title}\n\n{rule.why}\n\nFix: {rule.fix}.\n\n"
        f"Instead of\n\n{indented['bad']}\n\nwrite\n\n{indented['good']}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _is_wanted(code: str, select: tuple[str, ...], ignore: tuple[str, ...]) -> bool:
    return (not select or code.startswith(select)) and not (ignore and code.startswith(ignore))


def _as_json(findings: Iterable[Finding]) -> str:
    data: list[dict[str, Any]] = [attrs.asdict(one) | {"fix": one.fix} for one in findings]
    return json.dumps(data, ensure_ascii=False, indent=2)


def _as_text(findings: list[Finding], linted: Linted) -> str:
    seen = f"{linted.bodies:,} functions of workflows in {linted.files:,} files"
    if not findings:
        return f"{seen}: nothing found"
    first = findings[0].code
    lines = [*map(str, findings), f"{len(findings):,} found in {seen}; why: python -m durable lint --explain {first}"]
    return "\n".join(lines)
