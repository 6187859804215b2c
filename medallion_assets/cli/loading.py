"""Commands that load files into tables outside the pipelines, and those for quarantined rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from medallion_assets.cli.app import app, refuse
from medallion_assets.reports import result_row, show

if TYPE_CHECKING:
    from medallion_assets.sources import CopyResult
from medallion_assets.cli.app import Names, table_at, tables_at
from medallion_assets.cli.verbs import DryRun, Files, do_to_each
from medallion_assets.operations import VerbRequest
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.reports import quarantine_counts, quarantine_rows
from medallion_assets.sources.quarantine import REASONS


@app.command("copy-into")
def copy_into_table(
    table: str,
    source: str,
    source_format: str,
    files: Annotated[list[str] | None, typer.Option(help="Names below the source (FILES).")] = None,
    pattern: Annotated[str, typer.Option(help="A glob for file names (PATTERN).")] = "",
    force: Annotated[bool, typer.Option(help="Append files again that were loaded before.")] = False,
    merge_schema: Annotated[bool, typer.Option(help="New columns join the table.")] = False,
    select: Annotated[list[str] | None, typer.Option(help="A column as SQL; repeat for more.")] = None,
    validate: Annotated[str, typer.Option(help="A number of rows, or ALL: check, write nothing.")] = "",
    option: Annotated[list[str] | None, typer.Option(help="key=value for reader or source.")] = None,
) -> None:
    """Append a source's files to a table, each once; malformed records go to its quarantine."""
    from medallion_assets.sources import copy_into

    options = dict(pair.partition("=")[::2] for pair in option or [])
    with _errors_shown():
        result = copy_into(
            table,
            source,
            source_format,
            files=files or (),
            pattern=pattern,
            force=force,
            merge_schema=merge_schema,
            select=select or (),
            validate=validate or 0,
            format_options=options,
        )
    _show(table, result)


@app.command("sql")
def run_statement(
    statement: Annotated[str, typer.Argument(help="COPY INTO, CREATE TABLE, DROP TABLE, or a query.")],
    limit: Annotated[int, typer.Option(help="Rows of a query shown at most.")] = 100,
) -> None:
    """Carry out one SQL statement: COPY INTO as Databricks writes it, CREATE or DROP TABLE, or a query."""
    from medallion_assets.session.frames import printed
    from medallion_assets.sources import CopyResult, sql

    with _errors_shown():
        result = sql(statement)
        if isinstance(result, int):
            typer.echo(f"The table is at version {result}.")
        elif result is None:
            typer.echo("The table is dropped, with its quarantine, file ledger and checkpoint.")
        elif isinstance(result, CopyResult):
            _show("by SQL", result)
        else:
            show.table("Result", [row.asDict() for row in printed(result.limit(limit)).collect()])


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Show what is wrong in one paragraph: exit 2 where the call is, 1 where the load is."""
    try:
        yield
    except ValueError as error:
        refuse(str(error))
    except RuntimeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show(table: str, result: "CopyResult") -> None:
    show.table(f"COPY INTO {table}", [result_row(result)])
    if result.message:
        typer.echo(f"Nothing was read: {result.message}.")


quarantine = typer.Typer(no_args_is_help=True, help="Rows and records that could not be loaded, and why.")
app.add_typer(quarantine, name="quarantine")

Ids = Annotated[list[str] | None, typer.Option("--id", help="An entry: its id, or the start of it.")]
Rules = Annotated[list[str] | None, typer.Option("--rule", help="Rows that broke this rule.")]
Reasons = Annotated[list[str] | None, typer.Option("--reason", help=f"{', '.join(REASONS)}; or rescued.")]
Where = Annotated[str, typer.Option(help="SQL over the quarantine's columns.")]


@quarantine.command("list")
def list_counts(names: Names = None) -> None:
    """Quarantined rows by table and rule."""
    counts = [row for table, lake in tables_at(names or [], True) for row in quarantine_counts(table, lake)]
    show.table("Quarantine", counts)


@quarantine.command("show")
def show_rows(table: str, limit: int = 20, rule: str = "", all_columns: bool = False) -> None:
    """A table's quarantined rows, newest first, in the columns a person mends them by."""
    show.table(f"Quarantine of {table}", quarantine_rows(*table_at(table), limit, rule, all_columns))


@quarantine.command()
def replay(
    names: Names = None,
    id_: Ids = None,
    rule: Rules = None,
    reason: Reasons = None,
    file: Files = None,
    where: Where = "",
    fix: Annotated[str, typer.Option(help="column = SQL expression, separated by commas.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Judge open rows again by today's rules, corrected by --fix; each good one reaches its table once."""
    choice = _choice(id_, rule, reason, file, where)
    do_to_each("replay", names, VerbRequest(dry_run, choice, fix))


@quarantine.command()
def discard(
    names: Names = None,
    why: Annotated[str, typer.Option(help="The reason, stored with the rows.")] = "",
    id_: Ids = None,
    rule: Rules = None,
    reason: Reasons = None,
    file: Files = None,
    where: Where = "",
    dry_run: DryRun = False,
) -> None:
    """Close open rows: they stay in quarantine with the reason, and are not tried again."""
    choice = _choice(id_, rule, reason, file, where)
    do_to_each("discard", names, VerbRequest(dry_run, choice, why=why))


def _choice(
    ids: list[str] | None,
    rules: list[str] | None,
    reasons: list[str] | None,
    files: list[str] | None,
    where: str,
) -> QuarantineFilter:
    return QuarantineFilter(
        tuple(ids or ()), tuple(rules or ()), tuple(reasons or ()), tuple(files or ()), where
    )
