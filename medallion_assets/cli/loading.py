"""Commands that load files into tables outside the pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from medallion_assets.cli.app import app, refuse
from medallion_assets.reports import result_row, show

if TYPE_CHECKING:
    from medallion_assets.sources import CopyResult


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
    statement: Annotated[str, typer.Argument(help="COPY INTO, CREATE TABLE ... AS, or a query.")],
    limit: Annotated[int, typer.Option(help="Rows of a query shown at most.")] = 100,
) -> None:
    """Carry out one SQL statement: COPY INTO as Databricks writes it, CREATE TABLE ... AS, or a query."""
    from medallion_assets.sources import CopyResult, sql

    with _errors_shown():
        result = sql(statement)
        if isinstance(result, int):
            typer.echo(f"The table is at version {result}.")
        elif isinstance(result, CopyResult):
            _show("by SQL", result)
        else:
            show.table("Result", [row.asDict() for row in result.limit(limit).collect()])


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Show what is wrong in one paragraph: exit 2 where the call is, 1 where the load is."""
    try:
        yield
    except ValueError as error:
        refuse(str(error))
        raise
    except RuntimeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show(table: str, result: "CopyResult") -> None:
    show.table(f"COPY INTO {table}", [result_row(result)])
    if result.message:
        typer.echo(f"Nothing was read: {result.message}.")
